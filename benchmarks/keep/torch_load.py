"""Print how many seconds torch needs to load a state of so many MiB from a file in memory, in JSON.

torch_load.py MIB TURNS
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import torch

_TENSORS = 16


def main(mib: str, turns: str) -> None:
    """Save once, load several times."""
    torch.set_num_threads(1)
    state = {f"layer.{n}": torch.rand((int(mib) << 20) // _TENSORS // 4) for n in range(_TENSORS)}
    took_s = []
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="keep-load-") as folder:
        torch.save(state, Path(folder, "state.pt"))
        del state
        for _ in range(int(turns)):
            began_s = time.perf_counter()
            loaded = torch.load(Path(folder, "state.pt"), weights_only=True)
            took_s.append(time.perf_counter() - began_s)
            del loaded
    print(json.dumps(took_s))


if __name__ == "__main__":
    main(*sys.argv[1:])
