"""The kubelet with real processes: phases, ends, and the environment of a pod."""

import asyncio
import os
import signal

import pytest

from elasticjob_operator.model.cluster_interface import Resource
from tests.integration.cli.conftest import Pods

_WAIT = "echo up; sleep 1000"


async def test_a_pod_that_runs_has_an_address_and_a_node(pods: Pods) -> None:
    await pods.create(_WAIT)
    status = await pods.phase("Running")
    pod = pods.get()
    assert pod is not None
    assert (status["podIP"], pod["spec"]["nodeName"]) == ("127.0.0.1", "local-0")
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"PodScheduled": "True", "Ready": "True"}


async def test_a_pod_succeeds_with_its_container(pods: Pods) -> None:
    await pods.create("exit 0")
    end = pods.end(await pods.phase("Succeeded"))
    assert (end["exitCode"], end["reason"]) == (0, "Completed")


async def test_an_exit_code_is_in_the_status(pods: Pods) -> None:
    await pods.create("exit 7")
    end = pods.end(await pods.phase("Failed"))
    assert (end["exitCode"], end["reason"]) == (7, "Error")


async def test_a_signal_is_in_the_status(pods: Pods) -> None:
    await pods.create("kill -SEGV $$$$")  # in a manifest, $$ is a dollar sign
    end = pods.end(await pods.phase("Failed"))
    assert (end["exitCode"], end["signal"]) == (139, signal.SIGSEGV)


async def test_a_container_killed_by_its_pid_fails_the_pod(pods: Pods) -> None:
    await pods.create(_WAIT)
    await pods.phase("Running")
    pod = pods.get()
    assert pod is not None
    [pid] = pods.kubelet.pids_of(pod["metadata"]["uid"])
    os.kill(pid, signal.SIGKILL)
    assert pods.end(await pods.phase("Failed"))["exitCode"] == 137


async def test_the_termination_message_is_in_the_status(pods: Pods) -> None:
    await pods.create("echo no room left > /dev/termination-log; exit 1")
    assert pods.end(await pods.phase("Failed"))["message"] == "no room left"


async def test_the_output_replaces_a_missing_termination_message_if_requested(pods: Pods) -> None:
    await pods.create("echo boom >&2; exit 1", container={"terminationMessagePolicy": "FallbackToLogsOnError"})
    assert pods.end(await pods.phase("Failed"))["message"] == "boom"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [(["no-such-command"], 127, "no-such-command"), (["/etc/hostname"], 126, "/etc/hostname")],
)
async def test_a_command_that_cannot_start_fails_the_pod(pods: Pods, command: list[str], code: int, words: str) -> None:
    await pods.create("", container={"command": command})
    end = pods.end(await pods.phase("Failed"))
    assert (end["exitCode"], end["reason"]) == (code, "StartError")
    assert words in end["message"]


async def test_a_pod_that_cannot_run_here_fails_with_a_message(pods: Pods) -> None:
    await pods.create(_WAIT, volumes=[{"name": "v", "secret": {"secretName": "s"}}])
    status = await pods.phase("Failed")
    assert status["reason"] == "NotPossibleHere"
    assert "volume 'v' is a Secret" in status["message"]


async def test_all_containers_must_succeed(pods: Pods) -> None:
    await pods.cluster.create(
        Resource.POD,
        {
            "metadata": {"name": "two"},
            "spec": {
                "containers": [{"name": "a", "command": ["true"]}, {"name": "b", "command": ["sh", "-c", "exit 3"]}]
            },
        },
    )
    status = await pods.phase("Failed", "two")
    assert [c["state"]["terminated"]["exitCode"] for c in status["containerStatuses"]] == [0, 3]


async def test_init_containers_run_first_and_share_volumes(pods: Pods) -> None:
    mounts = [{"name": "v", "mountPath": "/shared"}]
    first = {"name": "first", "command": ["sh", "-c", "echo hi > /shared/x"], "volumeMounts": mounts}
    volumes = [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    await pods.create("cat /shared/x", initContainers=[first], volumes=volumes, container={"volumeMounts": mounts})
    await pods.phase("Succeeded")
    assert ("plain", "hi") in pods.lines


async def test_a_failed_init_container_fails_the_pod(pods: Pods) -> None:
    await pods.create("echo never", initContainers=[{"name": "first", "command": ["false"]}])
    status = await pods.phase("Failed")
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert pods.lines == []


async def test_output_is_shown_and_kept(pods: Pods) -> None:
    await pods.create("echo out; echo err >&2")
    await pods.phase("Succeeded")
    assert sorted(pods.lines) == [("plain", "err"), ("plain", "out")]
    assert (pods.root / "logs/plain/trainer/stdout.log").read_text() == "out\n"
    assert (pods.root / "logs/plain/trainer/stderr.log").read_text() == "err\n"


async def test_processes_of_an_ended_container_are_killed(pods: Pods) -> None:
    await pods.create("sleep 1000 & exit 0")
    await pods.phase("Succeeded")  # the census at the end of the test finds it otherwise


async def test_a_pod_of_a_used_name_finds_empty_volumes(pods: Pods) -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "emptyDir": {}}]
    for _ in range(2):
        await pods.create("ls /v; touch /v/mine", volumes=volumes, container=mounts)
        await pods.phase("Succeeded")
        await pods.cluster.delete(Resource.POD, "default", "plain")
        await pods.wait_removed()
    assert pods.lines == []


async def test_pods_run_concurrently_on_different_nodes(pods: Pods) -> None:
    names = [await pods.create(_WAIT, f"p{n}") for n in range(3)]
    await asyncio.gather(*(pods.phase("Running", name) for name in names))
    found = [pods.get(name) for name in names]
    assert [pod["spec"]["nodeName"] for pod in found if pod] == ["local-0", "local-1", "local-2"]
