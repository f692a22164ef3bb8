"""Argv, environment and files of processes, from a pod."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elasticjob_api import constants
from elasticjob_cli.local.containers import Host, PodPlan, make_files, plan_pod, remove_memory
from elasticjob_cli.local.environment import PodFacts


def _plan(
    container: dict[str, Any],
    root: Path = Path("/run"),
    environ: dict[str, str] | None = None,
    *,
    volumes: Sequence[dict[str, Any]] = (),
    memory: Path | None = None,
) -> PodPlan:
    pod = {
        "metadata": {"name": "digits-0-abcde", "uid": "u"},
        "spec": {
            "hostname": "digits-0",
            "volumes": [{"name": "ckpt", "emptyDir": {}}, *volumes],
            "containers": [{"name": "trainer", **container}],
        },
    }
    host = Host(
        environ={"PATH": "/usr/bin", "HOME": "/home/me"} if environ is None else environ,
        bin=Path("/venv/bin"),
        cwd=root / "manifests",
        pods=root / "pods",
        volumes=root / "host",
        logs=root / "logs",
        memory=memory,
    )
    facts = PodFacts(pod=pod, node_name="local-0", pod_ip="127.0.0.1", host_ip="127.0.0.1")
    return plan_pod(facts, host, "digits-0-abcde")


_MOUNT = [{"name": "ckpt", "mountPath": "/ckpt"}]


def test_command_and_args_become_argv_with_variables_and_folders() -> None:
    container = {
        "command": ["python", "train.py"],
        "args": ["--out=$(OUT)", "/ckpt/x"],
        "env": [{"name": "OUT", "value": "/ckpt/last"}],
        "volumeMounts": _MOUNT,
    }
    folder = "/run/pods/digits-0-abcde/volumes/ckpt"
    [plan] = _plan(container).containers
    assert plan.argv == ("python", "train.py", f"--out={folder}/last", f"{folder}/x")
    assert plan.env["OUT"] == f"{folder}/last"


def test_kept_steps_are_in_memory_until_the_pod_has_ended(tmp_path: Path) -> None:
    mounted = {"name": "elasticjob-keep", "mountPath": "/var/run/elasticjob/keep"}
    variable = {"name": "ELASTICJOB_KEEP_DIR", "value": "/var/run/elasticjob/keep"}
    volume = {"name": "elasticjob-keep", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    made = _plan({"volumeMounts": [mounted], "env": [variable]}, tmp_path, volumes=[volume], memory=tmp_path / "memory")
    folder = tmp_path / "memory" / "digits-0-abcde"
    assert made.containers[0].env["ELASTICJOB_KEEP_DIR"] == str(folder)
    make_files(made)
    (folder / "step").write_text("x")
    remove_memory(made)
    assert list((tmp_path / "memory").iterdir()) == []
    assert made.containers[0].stdout.parent.exists()


def test_a_pod_without_kept_steps_has_nothing_in_memory(tmp_path: Path) -> None:
    made = _plan({}, tmp_path)
    make_files(made)
    remove_memory(made)
    assert made.memory is None


def test_the_keep_of_a_surrounding_job_is_not_that_of_a_pod() -> None:
    surrounding = {"ELASTICJOB_KEEP_DIR": "/var/run/elasticjob/keep", "ELASTICJOB_KEEP_COPIES": "1", "HOME": "/h"}
    env = _plan({}, environ=surrounding).containers[0].env
    assert [name for name in env if name.startswith("ELASTICJOB_KEEP")] == []


def test_this_installations_programs_come_first() -> None:
    assert _plan({}).containers[0].env["PATH"] == "/venv/bin:/usr/bin"


def test_this_installations_programs_come_first_even_if_the_manifest_sets_path() -> None:
    container = {"env": [{"name": "PATH", "value": "/opt/bin"}]}
    assert _plan(container).containers[0].env["PATH"] == "/venv/bin:/opt/bin"


def test_an_empty_path_adds_no_working_directory() -> None:
    assert _plan({}, environ={"PATH": ""}).containers[0].env["PATH"] == "/venv/bin"


def test_a_surrounding_jobs_variables_are_not_passed_on() -> None:
    environ = {constants.ENV_SLOT: "7", constants.ENV_ROUND: "3", constants.ENV_LOG_LEVEL: "debug", "HOME": "/home/me"}
    env = _plan({}, environ=environ).containers[0].env
    assert not {constants.ENV_SLOT, constants.ENV_ROUND} & set(env)
    assert (env[constants.ENV_LOG_LEVEL], env["HOME"]) == ("debug", "/home/me")


def test_the_hostname_is_the_pods() -> None:
    assert _plan({}).containers[0].env["HOSTNAME"] == "digits-0"


def test_the_agent_gets_the_path_of_its_termination_log() -> None:
    [plan] = _plan({}).containers
    assert plan.env[constants.ENV_TERMINATION_LOG] == str(plan.termination_log)


def test_a_container_runs_in_the_folder_of_the_manifest() -> None:
    assert _plan({"workingDir": "/app"}).containers[0].cwd == Path("/run/manifests")


def test_a_working_directory_in_a_volume_is_that_folder() -> None:
    [plan] = _plan({"workingDir": "/ckpt/a", "volumeMounts": _MOUNT}).containers
    assert plan.cwd == Path("/run/pods/digits-0-abcde/volumes/ckpt/a")


def test_all_folders_and_the_termination_log_are_made(tmp_path: Path) -> None:
    plan = _plan({"volumeMounts": _MOUNT}, tmp_path)
    make_files(plan)
    [container] = plan.containers
    assert plan.folders[0].is_dir()
    assert container.stdout.parent.is_dir()
    assert container.termination_log.read_bytes() == b""
