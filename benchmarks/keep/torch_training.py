"""A training with torch whose state has many bytes; it saves it once, and a restarted worker begins with that state.

    torch_training.py TRACE

Variables: BENCH_MIB, the size of a rank's state; BENCH_FORM, `keep`, `torch` or `dcp`; BENCH_DISK, a folder for the
last two. It marks its points as the scripts of `benchmarks/recovery/next_step` do.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "recovery" / "next_step" / "scripts"))
import marks

marks.begin("torch")
import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402

marks.mark("imported")
torch.set_num_threads(1)
FORM, SIZE, DISK = os.environ["BENCH_FORM"], int(os.environ["BENCH_MIB"]) << 20, Path(os.environ["BENCH_DISK"])
RANK, WORLD = os.environ["RANK"], os.environ["WORLD_SIZE"]
KEEP, KEPT = os.environ.get("ELASTICJOB_KEEP"), os.environ.get("ELASTICJOB_KEPT")
_TENSORS, _SAVE_AT = 16, 5


def new_state() -> dict[str, torch.Tensor]:
    """Return a state of that size."""
    return {f"layer.{number}": torch.zeros(SIZE // _TENSORS // 4) for number in range(_TENSORS)}


def load() -> dict[str, torch.Tensor]:
    """Return the saved state; a new one before the first save. A rank of a smaller world reads all parts."""
    if FORM == "dcp" and (DISK / "dcp").exists():
        state = new_state()
        dcp.load(state, storage_reader=dcp.FileSystemReader(DISK / "dcp"), no_dist=True)
        marks.mark("loaded 1")
        return state
    folder = Path(KEPT) if FORM == "keep" and KEPT else DISK
    found = [torch.load(path, weights_only=True) for path in sorted(folder.glob("*.pt"))]
    if found:
        marks.mark(f"loaded {len(found)}")
    return found[0] if found else new_state()


def save(state: dict[str, torch.Tensor]) -> None:
    """Save the state in its form."""
    if FORM == "dcp":
        dcp.save(state, storage_writer=dcp.FileSystemWriter(DISK / "dcp", sync_files=False), no_dist=True)
    elif FORM == "torch":
        torch.save(state, DISK / f"draft-{RANK}")
        (DISK / f"draft-{RANK}").rename(DISK / f"{RANK}.pt")
    elif KEEP:
        draft = Path(KEEP, f"draft-{RANK}")
        draft.mkdir()
        torch.save(state, draft / f"{RANK}.pt")
        draft.rename(Path(KEEP, f"step-{_SAVE_AT}.{RANK}-of-{WORLD}"))


def main() -> None:
    """Train without end."""
    state = load()
    marks.mark("model")
    done = 0
    while True:
        state["layer.0"] += 1
        done += 1
        if done == _SAVE_AT and not KEPT:
            save(state)
        marks.step_done(done)


main()
