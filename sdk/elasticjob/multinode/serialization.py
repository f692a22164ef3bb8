"""Pickle a function and its arguments for other interpreters, on this machine and on others.

As in multiprocessing's `spawn`, objects are pickled by the names of their modules. For those of the main script, the
other interpreter imports that script under another name. So every node needs the same code; otherwise the driver
receives an error that names the missing module. Import paths of the driver are added after those of a node.
"""

import os
import pickle
import sys
from collections.abc import Callable
from multiprocessing import spawn
from typing import IO, Any

_LOCAL_ONLY = ("authkey", "sys_path", "orig_dir", "dir")
"""Data of `spawn` that is valid only on the driver's machine."""


def pickle_call(fn: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """Return function and arguments as bytes; raise the errors of pickling them."""
    preparation = spawn.get_preparation_data("rank")
    portable = {name: value for name, value in preparation.items() if name not in _LOCAL_ONLY}
    head = pickle.dumps((portable, sys.path, os.getcwd()))  # noqa: PTH109  # as below
    return head + pickle.dumps((fn, args))


def unpickle_call(file: IO[bytes]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return function and arguments in another interpreter; raise the errors of importing them."""
    preparation, path, folder = pickle.load(file)  # noqa: S301  # sealed with the call's key
    sys.path += [each for each in path if each not in sys.path]
    if os.path.isdir(folder):  # noqa: PTH112  # pathlib would slow the start of a worker
        os.chdir(folder)
    spawn.prepare(preparation)
    fn, args = pickle.load(file)  # noqa: S301  # as above
    return fn, args
