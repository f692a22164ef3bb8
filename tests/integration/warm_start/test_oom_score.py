"""The oom_score_adj of a zygote and its forks, as root and as another user.

The module is executed from its text: the other user may not be able to read this tree.
"""

import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import elasticjob_agent
from testing.processes.other_user import UID, needs_root
from testing.waiting import scaled

_MODULE = Path(elasticjob_agent.__file__).parent / "user_python/warm_start/elasticjob_warm_start/oom_score.py"
_SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/bin")
_SETPRIV = shutil.which("setpriv")
_OTHER_USER = (str(_SETPRIV), f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
needs_other_user = pytest.mark.skipif(
    not (_SYSTEM_PYTHON and _SETPRIV), reason="no setpriv, or no Python that another user may execute"
)
_SHOW = """
first = _read()
original = raise_own()
print(first, original, _read(), flush=True)
if os.fork() == 0:
    restore(original)
    print(_read(), flush=True)
    os._exit(0)
os.wait()
"""
_HIDE = """
import ctypes
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: its files in /proc belong to root from now on
"""


def scores(python: str, script: str, *, score: int, prefix: tuple[str, ...] = ()) -> list[int | None]:
    """Return the numbers that the script prints; the process begins with `score`, which its parent has set."""
    command = (*prefix, python, "-I", "-S", "-c", _MODULE.read_text() + script)
    begin = ("sh", "-c", f'echo {score} > /proc/self/oom_score_adj && exec "$@"', "sh")
    done = subprocess.run((*begin, *command), stdout=subprocess.PIPE, text=True, check=True, timeout=scaled(30))
    return [None if word == "None" else int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("score", [0, 500, 986])
def test_a_fork_restores_the_value(score: int) -> None:
    assert scores(sys.executable, _SHOW, score=score) == [score, score, 1000, score]


@needs_root
@needs_other_user
@pytest.mark.parametrize("score", [0, 500, 986])
def test_a_fork_restores_the_value_without_privileges(score: int) -> None:
    assert scores(str(_SYSTEM_PYTHON), _SHOW, score=score, prefix=_OTHER_USER) == [score, score, 1000, score]


@needs_root
@needs_other_user
def test_a_value_that_a_fork_could_not_restore_stays() -> None:
    assert scores(str(_SYSTEM_PYTHON), _HIDE + _SHOW, score=500, prefix=_OTHER_USER) == [500, None, 500, 500]


def test_a_process_that_is_already_the_first_to_go_stays_it() -> None:
    assert scores(sys.executable, _SHOW, score=1000) == [1000, None, 1000, 1000]


def test_a_value_that_cannot_be_restored_is_an_error() -> None:
    spec = spec_from_file_location("oom_score", _MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module._FILE = "/proc/self/absent"  # type: ignore[attr-defined]
    with pytest.raises(FileNotFoundError):
        module.restore(500)
    module.restore(None)
