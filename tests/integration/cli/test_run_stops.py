"""A stopped run leaves nothing, however it was stopped: the census at the end of each test checks that."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testing.processes.census import MARKER, Census
from testing.waiting import eventually, scaled
from tests.integration.cli.runs import WAIT, Cli

_STUBBORN = "trap '' TERM INT; setsid sleep 1000 & echo up; while :; do sleep 1000; done"

_KILLS = """
import subprocess
import psutil
from elasticjob_cli.local.signals import kill_everything

for _ in range(16):
    subprocess.Popen(["sh", "-c", "while :; do setsid sleep 1000 & sleep 0.01; done"])
while len(psutil.Process().children(recursive=True)) < 100:
    pass
kill_everything(7)
"""
"""A program that kills its processes while sixteen of them start new ones."""


@pytest.mark.parametrize(("sig", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)], ids=str)
def test_a_signal_suspends_the_job_and_ends_the_run(cli: Cli, sig: signal.Signals, code: int) -> None:
    cli.manifest(WAIT)
    process = cli.begin_run("--stop-timeout", 50)
    cli.workers_up()
    process.send_signal(sig)
    ended = cli.end(process)
    assert (ended.code, cli.status()["phase"]) == (code, "Suspended")
    assert f"{sig.name}: stopping the job within 50 s; a second signal kills everything" in ended.out
    assert cli.census.found() == []


def test_workers_may_shut_down_gracefully(cli: Cli) -> None:
    cli.manifest("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.01; done")
    process = cli.begin_run("--stop-timeout", 50)
    cli.workers_up()
    process.send_signal(signal.SIGINT)
    assert cli.end(process).out.count("] saved\n") == 2


def test_workers_that_ignore_a_stop_are_killed_with_all_their_processes(cli: Cli) -> None:
    cli.manifest(_STUBBORN)
    process = cli.begin_run()
    cli.workers_up()
    process.send_signal(signal.SIGINT)
    assert cli.end(process).code == 130
    assert cli.census.found() == []


def test_a_second_signal_kills_everything_at_once(cli: Cli) -> None:
    cli.manifest(_STUBBORN)
    process = cli.begin_run()
    cli.workers_up()
    process.send_signal(signal.SIGINT)
    _read_until(process, "stopping the job")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    eventually(lambda: not cli.census.found(), what="nothing left")


def test_a_kill_reaches_processes_that_start_meanwhile(census: Census) -> None:
    process = subprocess.Popen([sys.executable, "-c", _KILLS], env={**os.environ, MARKER: census.token})
    assert process.wait(scaled(60)) == 7
    eventually(lambda: not census.found(), what="nothing left")


def test_a_killed_run_leaves_nothing(cli: Cli) -> None:
    cli.manifest(_STUBBORN)
    process = cli.begin_run()
    cli.workers_up()
    process.kill()
    process.wait(30)
    eventually(lambda: not cli.census.found(), what="nothing left")


def test_a_signal_before_the_job_is_created_ends_the_run(cli: Cli) -> None:
    cli.manifest(WAIT)
    process = cli.begin_run()
    _read_until(process, "job tiny")
    process.send_signal(signal.SIGINT)
    assert cli.end(process).code == 130
    assert cli.census.found() == []


def test_a_closed_reader_of_the_output_ends_the_run(cli: Cli) -> None:
    cli.manifest(WAIT)
    process = cli.begin_run()
    assert process.stdout is not None
    cli.workers_up()
    process.stdout.close()  # a silent job: nothing is written that could fail
    assert process.wait(30) == 141
    assert cli.census.found() == []


def test_a_full_disk_under_the_output_ends_the_run(cli: Cli) -> None:
    cli.manifest("echo up; while :; do echo more; sleep 0.01; done")
    with Path("/dev/full").open("wb") as full:
        assert cli.run(stdout=full).code == 141


def test_the_end_of_etcd_ends_the_run_with_a_message(cli: Cli) -> None:
    cli.manifest(WAIT)
    process = cli.begin_run()
    cli.workers_up()
    [etcd] = [each for each in cli.census.found() if each.name() == "etcd"]
    os.kill(etcd.pid, signal.SIGKILL)
    ended = cli.end(process)
    assert (ended.code, ended.err) == (
        124,
        "elasticjob run: etcd ended during the run; its last log lines are in out/etcd/etcd.log\n",
    )


def _read_until(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout is not None
    while text not in (line := process.stdout.readline()):
        assert line, "the run ended before it wrote the line"
