"""The program of `pause.py` that needs torch: it saves a state in one form after the other, and times each.

    torch_pause.py MIB DISK MEMORY KEEP TURNS

KEEP is the directory in which a script publishes. Each turn prints a line of JSON: form → seconds in this thread.
"""

import functools
import json
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

MIB = 1 << 20
_TENSORS = 16


def main(mib: str, disk: str, memory: str, keep: str, turns: str) -> None:
    """Measure all forms in turns."""
    warnings.simplefilter("ignore")  # DCP without a process group
    torch.set_num_threads(1)
    state = {f"layer.{n}": torch.rand(int(mib) * MIB // _TENSORS // 4) for n in range(_TENSORS)}
    for turn in range(1, int(turns) + 1):
        forms: dict[str, Callable[[], None]] = {
            "torch.save to disk": lambda: _save(state, Path(disk, "torch")),
            "DCP to disk": lambda: _dcp(state, Path(disk, "dcp")),
            "torch.save to memory": lambda: _save(state, Path(memory, "torch")),
            "torch.save into Keep": functools.partial(_keep, _save, state, Path(keep), 2 * turn),
            "DCP into Keep": functools.partial(_keep, _dcp, state, Path(keep), 2 * turn + 1),
        }
        print(json.dumps({name: _timed(form) for name, form in forms.items()}), flush=True)
        for folder in (Path(disk), Path(memory)):
            for path in folder.iterdir():
                shutil.rmtree(path)


def _timed(act: Callable[[], object]) -> float:
    time.sleep(2.0)  # until what the last form left to do in the background is done
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s


def _save(state: dict[str, torch.Tensor], folder: Path) -> None:
    folder.mkdir()
    torch.save(state, folder / "state.pt")


def _dcp(state: dict[str, torch.Tensor], folder: Path) -> None:
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, sync_files=False), no_dist=True)


def _keep(save: Callable[..., None], state: dict[str, torch.Tensor], keep: Path, step: int) -> None:
    draft = keep / f"draft-{step}"
    save(state, draft)
    draft.rename(keep / f"step-{step}")


if __name__ == "__main__":
    main(*sys.argv[1:])
