"""Signals to the parent, and its death: signals are raised in order, and no process is left."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from testing.waiting import scaled
from tests.integration.multiprocessing.parents import await_end, parent

LOOP = """
ctx = sh("sleep 600", "trap '' TERM INT; sleep 600 & while :; do sleep 600; done", redirects=Std.ALL)
try:
    report(*ctx.pids().values())
    ctx.wait()
except SignalException as e:
    report(e.sigval.name, e)
    ctx.close(e.sigval, timeout=1)
report(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, ctx.wait(0).is_failed())
"""


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_b_000_33_and_b_000_36_a_signal_is_raised_out_of_wait(tmp_path: Path, sig: signal.Signals) -> None:
    with parent(LOOP, tmp_path) as one:
        pids = list(map(int, one.line().split()))
        os.kill(one.process.pid, sig)
        assert one.line() == f"{sig.name} Process {one.process.pid} got signal: {int(sig)}"
        await_end(pids)
        assert one.line() == "True True"
        assert one.end()[0] == 0


def test_b_000_34_and_b_001_21_and_k_001_03_a_signal_during_the_start(tmp_path: Path) -> None:
    script = """
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        ctx = sh(*["sleep 600"] * 8)
        ctx.close(timeout=0)
except (SignalException, KeyboardInterrupt) as e:
    report(type(e).__name__)
import psutil
report([p for p in psutil.Process().children(recursive=True) if p.name() == "sleep"])
"""
    with parent(script, tmp_path) as one:
        assert one.line() in {"SignalException", "KeyboardInterrupt"}
        assert one.line() == "[]"


def test_b_000_35_and_k_000_14_a_second_signal_ends_the_grace(tmp_path: Path) -> None:
    script = """
ready = os.environ["FOLDER"] + "/ready"
ctx = sh(f"trap '' TERM; touch {ready}; while :; do sleep 600; done")
while not os.path.exists(ready):
    time.sleep(0.01)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
try:
    ctx.close(timeout=600)
except SignalException as e:
    report("raised", ctx.wait(0).failures[0].exitcode, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
"""
    with parent(script, tmp_path) as one:
        assert one.line() == "raised -9 True"


def test_b_000_36_the_signals_can_be_configured(tmp_path: Path) -> None:
    script = """
def mine(*_): pass
signal.signal(signal.SIGUSR1, mine)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
ctx = sh("sleep 600")
report(signal.getsignal(signal.SIGUSR1) is mine, signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)
other = sh("sleep 600")
ctx.close()
report(signal.getsignal(signal.SIGUSR1) is mine)
other.close()
report(signal.getsignal(signal.SIGUSR1) is mine)
"""
    with parent(script, tmp_path, TORCHELASTIC_SIGNALS_TO_HANDLE="SIGTERM,NOPE,SIGKILL,SIGUSR1") as one:
        assert [one.line(), one.line(), one.line()] == ["False True", "False", "True"]
        code, _, err = one.end()
        assert (code, err.count("NOPE,"), err.count("SIGKILL,")) == (0, 2, 2)


def test_k_000_14_after_a_close_off_the_main_thread_a_signal_has_its_previous_effect(tmp_path: Path) -> None:
    script = """
ctx = sh("sleep 600")
thread = threading.Thread(target=ctx.close)
thread.start()
thread.join()
report("closed")
time.sleep(600)
"""
    with parent(script, tmp_path) as one:
        assert one.line() == "closed"
        os.kill(one.process.pid, signal.SIGTERM)
        assert one.end()[0] == -signal.SIGTERM


def test_b_000_37_off_the_main_thread(tmp_path: Path) -> None:
    script = """
made = []
thread = threading.Thread(target=lambda: made.append(sh("sleep 0.3; exit 4")))
thread.start()
thread.join()
report(made[0].wait().failures[0].exitcode)
"""
    with parent(script, tmp_path) as one:
        assert one.line() == "4"
        assert one.end()[2].count("not on the main thread") == 1


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_b_000_38_and_k_000_15_the_parent_is_killed(tmp_path: Path, method: str) -> None:
    script = f"""
if __name__ == "__main__":
    folder = os.environ["FOLDER"]
    ctx = start_processes("w", functions.ignore_and_sleep, {{0: (folder + "/ready",)}}, None,
                          log_dir=tempfile.mkdtemp(dir=folder), start_method={method!r})
    other = sh("trap '' INT TERM; setsid sleep 600 & sleep 600 & while :; do sleep 600; done")
    while not os.path.exists(folder + "/ready"):
        time.sleep(0.01)
    import psutil
    while len(family := psutil.Process().children(recursive=True)) < 5:
        time.sleep(0.01)
    report(*[p.pid for p in family])
    time.sleep(600)
"""
    with parent(script, tmp_path) as one:
        pids = list(map(int, one.line().split()))
        assert len(pids) >= 5
        one.process.kill()
        await_end(pids)


def test_b_000_38_workers_end_with_a_parent_that_never_waits(tmp_path: Path) -> None:
    with parent('ctx = sh("sleep 600")\nreport(ctx.pids()[0])\n', tmp_path) as one:
        pid = int(one.line())
        assert one.end()[0] == 0
        await_end([pid])


def test_b_001_25_functions_of_the_main_module(tmp_path: Path) -> None:
    script = """
def own(): return 5
if __name__ == "__main__":
    def run(method):
        ctx = start_processes("w", own, {0: ()}, None, log_dir=tempfile.mkdtemp(dir=os.environ["FOLDER"]),
                              start_method=method, redirects=Std.ALL)
        return ctx.wait()
    report(run("fork").return_values)
    result = run("spawn")
    report(result.return_values or result.failures[0].message)
"""
    with parent(script, tmp_path) as one:
        assert one.line() == "{0: 5}"
        assert "never began" in one.line()  # there is no file from which to import `own`


_SCRIPT = """
import tempfile
from elasticjob_agent.multiprocessing import Std, start_processes
def own(): return 5
{guard}
ctx = start_processes("w", own, {{0: ()}}, None, log_dir=tempfile.mkdtemp(), redirects=Std.ERR)
result = ctx.wait()
print(result.return_values or result.failures[0].message, flush=True)
"""


@pytest.mark.parametrize(
    ("guard", "text_part"),
    [("if __name__ != '__main__': raise SystemExit", "never began"), ("", "never began"), (None, "{0: 5}")],
    ids=["a module that leaves", "no guard", "guard"],
)
def test_b_001_25_functions_of_a_script(tmp_path: Path, guard: str | None, text_part: str) -> None:
    text = _SCRIPT.format(guard=guard or "")
    if guard is None:
        head, body = text.split("\n\n", 1)
        text = f"{head}\ndef main():\n{textwrap.indent(body, '    ')}\nif __name__ == '__main__':\n    main()\n"
    (tmp_path / "script.py").write_text(text)
    run = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )
    assert text_part in run.stdout, run.stderr
