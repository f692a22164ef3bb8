"""`elasticjob run` from the file to the summary, with real agents, etcd and workers."""

import json
import os
import signal
import sys

import yaml

from testing.servers.etcd_ports import etcd_addresses
from tests.integration.cli.runs import WAIT, Cli

_IMPORTS = """
import sys
from elasticjob_cli.main import main
code = main(["run", "job.yaml", "--run-dir", "out"])
assert "elasticjob_operator.controller.reconciler" in sys.modules
print([name for name in ("kopf", "kubernetes", "kubernetes_asyncio") if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""


def test_a_job_that_succeeds_ends_with_0_and_a_table_of_its_ranks(cli: Cli) -> None:
    cli.manifest('echo "hello $RANK of $WORLD_SIZE"', nprocPerNode=2)
    ended = cli.run()
    assert (ended.code, ended.err) == (0, "")
    assert [(row[0], row[1], row[3], row[6]) for row in ended.rows] == [
        ("0", "local-0", "succeeded", "0"),
        ("1", "local-0", "succeeded", "0"),
        ("2", "local-1", "succeeded", "0"),
        ("3", "local-1", "succeeded", "0"),
    ]
    assert {f"[rank{n}] hello {n} of 4" for n in range(4)} <= set(ended.out.splitlines())


def test_the_status_has_the_whole_run(cli: Cli) -> None:
    cli.manifest("true", nprocPerNode=2)
    cli.run()
    status = cli.status()
    assert (status["phase"], status["rendezvousRound"]) == ("Succeeded", 1)
    assert (status["restarts"], status["nodeLosses"], status["workerStates"]["succeeded"]) == (0, 0, 4)
    assert [(node["rank"], node["ranks"]) for node in status["nodes"]] == [(0, "CC"), (1, "CC")]
    assert {c["type"]: c["status"] for c in status["conditions"]}["Complete"] == "True"


def test_without_warm_starts_the_status_has_no_starts(cli: Cli) -> None:
    cli.manifest("echo up", nprocPerNode=2)
    cli.run()
    assert [node.get("start") for node in cli.status()["nodes"]] == [None, None]


def test_the_etcd_of_a_run_has_no_port(cli: Cli) -> None:
    cli.manifest(WAIT)
    process = cli.begin_run()
    cli.workers_up()
    assert etcd_addresses(process.pid) == []
    process.send_signal(signal.SIGINT)
    assert cli.end(process).code == 130


def test_lines_of_a_nodes_only_worker_begin_with_its_pod(cli: Cli) -> None:
    cli.manifest("echo hi; echo there >&2", replicas=1)
    lines = cli.run().out.splitlines()
    pod = cli.status()["nodes"][0]["podName"]
    assert {f"[{pod}] hi", f"[{pod}] there"} <= set(lines)


def test_an_ignored_image_is_reported_once(cli: Cli) -> None:
    cli.manifest("true")
    assert cli.run().out.count("image busybox is ignored") == 1


def test_stdout_contains_only_the_resource(cli: Cli) -> None:
    cli.manifest("echo chatter")
    ended = cli.run("-o", "yaml")
    assert yaml.safe_load(ended.out) == cli.resource()
    assert "chatter" in ended.err
    assert "RANK" in ended.err


def test_the_resource_can_be_json(cli: Cli) -> None:
    cli.manifest("true")
    assert json.loads(cli.run("-o", "json").out)["status"]["phase"] == "Succeeded"


def test_nothing_is_written_outside_the_run_folder(cli: Cli) -> None:
    home, temp = cli.folder / "home", cli.folder / "temp"
    home.mkdir()
    temp.mkdir()
    cli.manifest("true")
    environ = {"HOME": str(home), "TMPDIR": str(temp), "PATH": os.environ["PATH"]}
    assert cli.run(env={**environ, "PYTHONDONTWRITEBYTECODE": "1"}).code == 0
    assert sorted(path.name for path in cli.folder.iterdir()) == ["home", "job.yaml", "out", "temp"]
    assert [*home.iterdir(), *temp.iterdir()] == []


def test_without_a_name_the_run_folder_is_below_runs(cli: Cli) -> None:
    path = cli.manifest("true")
    assert cli.end(cli.begin("run", path)).code == 0
    [folder] = (cli.folder / "runs").iterdir()
    assert folder.name.startswith("tiny-20")


def test_workers_start_beside_the_manifest_with_their_volumes(cli: Cli) -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}], "env": [{"name": "OUT", "value": "/v/x"}]}
    cli.manifest("test -f job.yaml && pwd > $OUT", pod={"volumes": [{"name": "v", "emptyDir": {}}]}, container=mounts)
    assert cli.run().code == 0
    written = [path.read_text().strip() for path in (cli.folder / "out/pods").glob("*/volumes/v/x")]
    assert written == [str(cli.folder)] * 2


def test_no_kubernetes_library_is_imported(cli: Cli) -> None:
    cli.manifest("true", replicas=1)
    ended = cli.end(cli.begin("-c", _IMPORTS, program=sys.executable))
    assert (ended.code, ended.err) == (0, "[]\n")
