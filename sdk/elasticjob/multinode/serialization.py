"""A function and its arguments on their way to other interpreters, on this machine and on others.

As multiprocessing's `spawn` does it: by the names of their modules, and for what is defined in the main script by
importing that script under another name. So every node needs the same code; where it has not, the asker is told which
module is missing. Paths of the asker's are added behind a node's own, never instead of them.
"""

import os
import pickle
import sys
from collections.abc import Callable
from multiprocessing import spawn
from typing import IO, Any

_LOCAL_ONLY = ("authkey", "sys_path", "orig_dir", "dir")
"""What `spawn` hands on that is of the asker's machine alone."""


def pickle_call(fn: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """Both as bytes; raises what pickling them raises."""
    preparation = spawn.get_preparation_data("rank")
    kept = {name: value for name, value in preparation.items() if name not in _LOCAL_ONLY}
    head = pickle.dumps((kept, sys.path, os.getcwd()))  # noqa: PTH109  # as below
    return head + pickle.dumps((fn, args))


def unpickle_call(file: IO[bytes]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Both again, in another interpreter; raises whatever importing them raises."""
    preparation, path, folder = pickle.load(file)  # noqa: S301  # it came with the call's key
    sys.path += [each for each in path if each not in sys.path]
    if os.path.isdir(folder):  # noqa: PTH112  # pathlib is not worth its import in a worker
        os.chdir(folder)
    spawn.prepare(preparation)
    fn, args = pickle.load(file)  # noqa: S301  # as above
    return fn, args
