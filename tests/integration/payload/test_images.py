"""The payload runs in any image: old, new, no glibc, neither Python nor shell; and leaves the worker alone."""

import re

import pytest

from testing.containers import AGENT, GLIBC, MUSL, NOTHING, OLD_GLIBC, Payload, docker
from tests.integration.payload.conftest import Run

# Building what these tests run on may take minutes the first time; it is part of the first test's set-up.
pytestmark = [pytest.mark.etcd, pytest.mark.timeout(1500)]

WITH_A_SHELL = pytest.mark.parametrize("image", [OLD_GLIBC, GLIBC, MUSL])
OURS = re.compile(
    r"^(ELASTICJOB_|TORCH|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)=|ROLE_|GROUP_|LOCAL_|MASTER_|HOSTNAME=)"
)


@WITH_A_SHELL
def test_a_job_of_one_worker_succeeds(run_job: Run, image: str) -> None:
    said = run_job(image, "sh", "-c", "echo rank $RANK of $WORLD_SIZE as $(id -u)")
    assert "rank 0 of 1 as 54321" in said


@WITH_A_SHELL
def test_steps_are_kept(run_job: Run, image: str) -> None:
    memory, keep = ("--tmpfs", "/keep:mode=1777"), ("--keep-dir", "/keep")
    said = run_job(image, "sh", "-c", "echo published in ${ELASTICJOB_KEEP:-nothing}", options=memory, agent=keep)
    assert "published in /keep/" in said


def test_a_job_succeeds_in_an_image_that_has_one_static_program_and_nothing_else(run_job: Run) -> None:
    assert "etcd Version: " in run_job(NOTHING, "etcd", "--version")


def test_a_worker_that_fails_is_told_with_its_exit_code(run_job: Run) -> None:
    assert "exit code 7" in run_job(MUSL, "sh", "-c", "exit 7", expect=7)


def test_a_command_that_is_not_in_the_image_is_named(run_job: Run) -> None:
    assert "no-such-program" in run_job(MUSL, "no-such-program", expect=127)


@WITH_A_SHELL
def test_a_worker_has_the_environment_of_its_image_and_the_jobs_and_nothing_else(run_job: Run, image: str) -> None:
    set_by_user = ("-e", "PYTHONPATH=/a:/b", "-e", "LC_ALL=de_DE", "-e", "LD_LIBRARY_PATH=/x", "-e", "~ODD=~value")
    said = run_job(image, "sh", "-c", "echo BEGIN; env; echo END", options=set_by_user)
    inside = said[said.index("BEGIN\n") + 6 : said.index("END\n")].splitlines()
    plain = docker("run", "--rm", *set_by_user, image, "env").splitlines()
    mine = {
        line for line in inside if not OURS.match(line) and not line.startswith(("PWD=", "OLDPWD=", "SHLVL=", "_="))
    }
    assert mine == {line for line in plain if not line.startswith(("HOSTNAME=", "HOME=", "~ODD"))} | set(_kept(inside))
    assert any(line.startswith("RANK=0") for line in inside)


def _kept(inside: list[str]) -> list[str]:
    """HOME depends on the user, and a shell may drop a variable with an odd name; if there they are as they were."""
    return [line for line in inside if line in {"HOME=/", "~ODD=~value"}]


@WITH_A_SHELL
def test_a_worker_maps_no_file_of_the_payload_and_the_agent_none_of_the_image(run_job: Run, image: str) -> None:
    said = run_job(
        image, "sh", "-c", "sed 's/^/init /' /proc/1/maps; sed 's/^/starter /' /proc/$PPID/maps; cat /proc/$$/maps"
    )
    files: dict[str, set[str]] = {"init": set(), "starter": set(), "worker": set()}
    for line in said.splitlines():
        if found := re.match(r"(?:(init|starter) )?[0-9a-f]+-[0-9a-f]+ .* (/\S+)$", line):
            files[found[1] or "worker"].add(found[2])
    for ours in (files["init"], files["starter"]):
        assert ours
        assert {path for path in ours if not path.startswith("/opt/elasticjob/")} == set()
    assert files["worker"]
    assert not any(path.startswith("/opt/elasticjob") for path in files["worker"])


def test_the_version_is_known_without_anything_of_the_project_around(payload: Payload) -> None:
    assert re.fullmatch(r"elasticjob-agent \d+\.\d+\.\d+\n", payload.run(NOTHING, AGENT, "--version"))
