"""Launches that cannot start, and the settings around them."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.launch import launch
from testing.waiting import scaled
from tests.integration.launch import functions
from tests.integration.spawn.functions import wait_for
from tests.integration.supervisor.launching import ROOT, Script


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_b_002_18_an_error_of_pickling_is_raised_in_the_caller(method: str) -> None:
    with pytest.raises(Exception, match="pickle"):
        launch(functions.nothing, lambda: None, 4, start_method=method)


_LIMITS = {
    # A limit on processes does not hold for root.
    "fork": "os.setuid(54321) if os.getuid() == 0 else None; resource.setrlimit(resource.RLIMIT_NPROC, (7, 7))",
    "spawn": "resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/proc/self/fd')) + 20,) * 2)",
}


@pytest.mark.parametrize("method", _LIMITS)
def test_b_002_18_when_the_system_refuses_a_later_worker_none_is_left(script: Script, method: str) -> None:
    program = script(
        "import psutil, resource\n"  # another user may be unable to import more
        f"launch(functions.nothing, None, 1, start_method={method!r})\n"
        "before = dict(os.environ)\n"
        f"{_LIMITS[method]}\n"
        f"try: launch(functions.hang, None, 32, start_method={method!r})\n"
        "except Exception as error: print('refused', isinstance(error, MainProcessError), before == dict(os.environ))\n"
        "print([each for each in psutil.Process().children(recursive=True) if '-c' in each.cmdline()])\n"
    )
    assert program.communicate(timeout=scaled(60))[0] == "refused False True\n[]\n"


def test_b_002_21_an_unknown_start_method_is_an_assertion_error_also_without_assertions() -> None:
    code = (
        "from elasticjob_agent.launch import set_start_method\n"
        "try: set_start_method('threads')\n"
        "except AssertionError as error: print(error)\n"
        "print(set_start_method('spawn'))\n"
        "try: set_start_method('fork')\n"
        "except RuntimeError: print('twice')\n"
    )
    ran = subprocess.run([sys.executable, "-O", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    unknown, first, second = ran.stdout.splitlines()
    assert "'threads'" in unknown
    assert (first, second) == ("None", "twice")


def test_the_start_method_is_the_global_default_unless_given(tmp_path: Path, script: Script) -> None:
    program = script("set_start_method('forkserver')\nlaunch(functions.note_parent, folder, 1)\nprint(os.getpid())\n")
    pid = program.communicate(timeout=scaled(60))[0].strip()
    assert (tmp_path / "parent").read_text() != pid


@pytest.mark.parametrize(
    "setup", ["true", "ip link set lo up", "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"]
)
def test_b_002_22_a_free_port_is_found_with_loopback_only_and_without_ipv6(setup: str) -> None:
    code = "from elasticjob_agent.launch import free_port; print(free_port())"
    command = ["unshare", "--net", "--map-root-user", "sh", "-c", f"{setup}; exec {sys.executable} -c '{code}'"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert 0 < int(ran.stdout) < 65536


def test_b_002_25_waiting_costs_no_cpu(script: Script) -> None:
    program = script("launch(functions.hang, None, 2, start_method='fork')")
    wait_for(lambda: len(psutil.Process(program.pid).children(recursive=True)) >= 3)
    main = psutil.Process(program.pid)

    def used_s() -> float:
        before_s, began_s = sum(main.cpu_times()[:2]), time.monotonic()
        wait_for(lambda: time.monotonic() - began_s > 0.2)
        return float(sum(main.cpu_times()[:2]) - before_s)

    assert min(used_s() for _ in range(5)) == 0
