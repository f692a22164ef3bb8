"""Runs of jobs that fail, and runs with injected faults."""

import json
import re

import pytest

from tests.integration.cli.runs import Cli

_UNTIL_RESTARTED = """
echo '{"step": 5, "total": 10}' > "$ELASTICJOB_PROGRESS"
[ "$ELASTICJOB_ROUND" -gt 1 ] || sleep 1000
"""


def test_a_killed_worker_costs_one_restart_and_is_the_root_cause(cli: Cli) -> None:
    cli.manifest(_UNTIL_RESTARTED)
    ended = cli.run("--inject", "kill-worker@50%")
    status = cli.status()
    assert (ended.code, status["restarts"], status["rendezvousRound"]) == (0, 1, 2)
    assert (status["lastFailure"]["rank"], status["lastFailure"]["signal"]) == (1, "SIGKILL")
    assert "inject kill-worker:rank=1@50%: sent SIGKILL to rank 1, pid " in ended.out
    assert "last failure: rank 1 in pod tiny-1-" in ended.out


def test_a_killed_agent_costs_a_node_and_no_restart(cli: Cli) -> None:
    cli.manifest(_UNTIL_RESTARTED)
    ended = cli.run("--inject", "kill-agent:slot=0@0s")
    status = cli.status()
    assert (ended.code, status["restarts"], status["nodeLosses"]) == (0, 0, 1)
    assert "SIGKILL to the agent of pod tiny-0-" in ended.out


def test_an_agent_that_leaves_on_request_costs_no_loss_and_no_restart(cli: Cli) -> None:
    cli.manifest(_UNTIL_RESTARTED)
    ended = cli.run("--inject", "term-agent@0s")
    status = cli.status()
    assert (ended.code, status["restarts"], status["nodeLosses"]) == (0, 0, 0)
    assert "SIGTERM to the agent of pod tiny-1-" in ended.out


def test_a_deleted_pod_is_replaced(cli: Cli) -> None:
    cli.manifest(_UNTIL_RESTARTED)
    ended = cli.run("--inject", "delete-pod:slot=1@0s")
    assert (ended.code, cli.status()["restarts"]) == (0, 0)
    assert re.search(r"pod tiny-1-\w+ is running on local-2\n", ended.out)


def test_a_job_may_be_scaled(cli: Cli) -> None:
    cli.manifest('[ "$WORLD_SIZE" = 3 ] || sleep 1000', maxReplicas=3)
    ended = cli.run("--inject", "scale:3@0s")
    assert (ended.code, len(ended.rows), cli.resource()["spec"]["replicas"]) == (0, 3, 3)


def test_a_fault_that_was_not_injected_is_reported_and_fails_the_run(cli: Cli) -> None:
    cli.manifest("true")
    ended = cli.run("--inject", "kill-worker@99%")
    assert ended.code == 1
    assert "inject kill-worker:rank=1@99%: not injected" in ended.out
    assert cli.status()["phase"] == "Succeeded"


def test_a_job_that_fails_ends_with_1_and_the_root_cause(cli: Cli) -> None:
    cli.manifest("echo boom >&2; exit 9", maxRestarts=0)
    ended = cli.run()
    assert (ended.code, cli.status()["phase"]) == (1, "Failed")
    assert "exited with 9 in round 1: boom" in ended.out


_RAISES = """
import os, time
if os.environ["RANK"] == "1":
    raise ValueError("no such shard")
time.sleep(1000)
"""


@pytest.mark.parametrize(("nodes", "restarts"), [(1, 0), (1, 2), (3, 0), (3, 1)])
def test_each_attempt_shows_its_cause_once_and_so_does_the_summary(cli: Cli, nodes: int, restarts: int) -> None:
    container = {"command": ["python", "-c", _RAISES]}
    cli.manifest("", replicas=nodes, nprocPerNode=2, maxRestarts=restarts, container=container)
    ended = cli.run()
    shown = [line for line in ended.out.splitlines() if "no such shard" in line]
    written = [line for line in shown if line == "[rank1] ValueError: no such shard"]
    summed_up = [line for line in shown if line.startswith("  root cause: rank 1 in pod tiny-0-")]
    assert ended.code == 1
    assert (len(written), len(summed_up), len(shown)) == (restarts + 1, 1, restarts + 2)
    assert ended.out.count("is used up") == 1
    assert "elasticjob-agent:" not in ended.out
    logged = "".join(path.read_text() for path in (cli.folder / "out").glob("logs/*/trainer/stderr.log"))
    assert logged.count("is used up") == nodes


def test_a_command_that_is_not_found_is_shown_once_for_each_attempt_and_in_the_summary(cli: Cli) -> None:
    cli.manifest("", maxRestarts=1, container={"command": ["no-such-command"]})
    shown = [line for line in cli.run().out.splitlines() if "no-such-command" in line]
    assert 1 <= sum(line.startswith("[elasticjob") for line in shown) <= 2
    assert sum(line.startswith("  root cause: rank ") for line in shown) == 1
    assert len(shown) <= 3


def test_a_command_that_is_not_found_is_retried_unless_a_rule_ends_the_job(cli: Cli) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [126, 127]}}
    cli.manifest("", maxRestarts=1, container={"command": ["no-such-command"]})
    again = cli.run()
    assert (again.code, cli.status()["reason"], cli.status()["restarts"]) == (127, "MaxRestartsExceeded", 1)
    assert "\n  cure: Correct spec.template.spec.containers[trainer].command" in again.out
    cli.manifest("", maxRestarts=1, failurePolicy={"rules": [rule]}, container={"command": ["no-such-command"]})
    at_once = cli.end(cli.begin("run", cli.folder / "job.yaml", "--run-dir", "second", "-o", "json"))
    status = json.loads(at_once.out)["status"]
    assert (at_once.code, status["reason"], status.get("restarts", 0)) == (127, "FailJobRule", 0)


def test_the_log_that_the_summary_names_has_the_traceback(cli: Cli) -> None:
    cli.manifest("", nprocPerNode=2, maxRestarts=0, container={"command": ["python", "-c", _RAISES]})
    named = re.search(r"\n  its log: (.*)\n", cli.run().out)
    assert named is not None
    words = "".join(path.read_text() for path in (cli.folder / named[1]).glob("*/stderr.log"))
    assert "[rank1] ValueError: no such shard" in words


def test_the_root_cause_is_shown_failed_and_its_peers_stopped_after_the_end(cli: Cli) -> None:
    cli.manifest('[ "$RANK" = 0 ] && exit 9; sleep 1000', maxRestarts=0)
    cli.run()
    status = cli.status()
    assert [node["ranks"] for node in status["nodes"]] == ["F", "T"]
    assert (status["workerStates"]["failed"], status["workerStates"]["stopped"]) == (1, 1)


def test_a_script_that_raises_at_import_is_reported_with_its_last_line(cli: Cli) -> None:
    (cli.folder / "train.py").write_text("import no_such_module\n")
    cli.manifest("", maxRestarts=0, container={"command": ["python", "train.py"]})
    ended = cli.run()
    assert ended.code == 1
    assert "ModuleNotFoundError: No module named 'no_such_module'" in cli.status()["lastFailure"]["message"]


def test_a_command_that_is_not_found_is_named_and_ends_with_127(cli: Cli) -> None:
    cli.manifest("", maxRestarts=0, container={"command": ["no-such-command"]})
    ended = cli.run()
    assert ended.code == 127
    assert "command 'no-such-command' not found" in cli.status()["lastFailure"]["message"]


def test_a_side_container_that_never_ends_does_not_hold_a_finished_job(cli: Cli) -> None:
    side = {"name": "side", "command": ["sleep", "1000"]}
    trainer = {"name": "trainer", "command": ["true"]}
    cli.manifest("", replicas=1, pod={"containers": [trainer, side]})
    assert cli.run().code == 0
