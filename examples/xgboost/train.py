"""Gradient-boosted trees over several processes with XGBoost's own collective: nothing here knows of elasticjob.

Rank 0 runs XGBoost's tracker at MASTER_ADDR and MASTER_PORT, every rank (rank 0 too) joins it and holds a part of the
rows. Trees are added a few at a time. Rank 0 writes the model to a file after each. Each start continues from the
newest model that any rank has. The parts are drawn from the rank, so any number of ranks trains on the same kind of
data.

Where ELASTICJOB_KEEP is set, each node also publishes the model there. After a start ELASTICJOB_KEPT then has the
newest model that survived in memory, with ELASTICJOB_KEPT_STEP trees.
"""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import xgboost
from xgboost.collective import CommunicatorContext, Op, allreduce, broadcast, get_rank, get_world_size
from xgboost.tracker import RabitTracker

ROWS = 2_000
FEATURES = 6
PARAMETERS = {"max_depth": 4, "eta": 0.3, "objective": "reg:squarederror", "nthread": 1, "tree_method": "hist"}


def rows(seed: int) -> xgboost.DMatrix:
    """Return inputs, and a sum of products of them to be learned."""
    x = np.random.default_rng(seed).standard_normal((ROWS, FEATURES))
    return xgboost.DMatrix(x, label=x[:, 0] * x[:, 1] + x[:, 2])


def load(path: Path) -> tuple[xgboost.Booster | None, int]:
    """Return the model to continue with and its number of trees: the file, or a kept model that has more."""
    model = xgboost.Booster(PARAMETERS, model_file=path) if path.exists() else None
    have = 0 if model is None else model.num_boosted_rounds()
    kept = os.environ.get("ELASTICJOB_KEPT")  # the same step on all ranks, or none
    if kept and int(os.environ["ELASTICJOB_KEPT_STEP"]) > have:
        model = xgboost.Booster(PARAMETERS, model_file=Path(kept, "model.json"))
        have = model.num_boosted_rounds()
    return model, have


def agree(model: xgboost.Booster | None, have: int) -> tuple[xgboost.Booster | None, int]:
    """Return the model with the most trees of all ranks, and its number of trees.

    A node that has just joined may have no file, and a shared file system may show it an older one.
    """
    most = int(allreduce(np.array([have]), Op.MAX)[0])
    if most == 0:
        return None, 0
    first = int(allreduce(np.array([get_rank() if have == most else get_world_size()]), Op.MIN)[0])
    raw = broadcast(None if model is None else model.save_raw("ubj"), first)
    return xgboost.Booster(PARAMETERS, model_file=raw), most


def save(path: Path, model: xgboost.Booster) -> None:
    """Write the file completely or not at all: a process may be killed in the middle."""
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    model.save_model(draft)
    draft.replace(path)


def publish(have: int, model: xgboost.Booster) -> None:
    """Publish the model once on each node, if the job keeps steps in memory. The name is given when all is written."""
    keep = os.environ.get("ELASTICJOB_KEEP")
    if keep is None or os.environ["LOCAL_RANK"] != "0":
        return
    draft = Path(keep, f"writing-{have}")
    try:
        draft.mkdir()
        (draft / "model.json").write_bytes(model.save_raw("json"))
        draft.rename(Path(keep, f"step-{have}"))  # from now on it is not the script's any more
    except OSError:  # no room: train on without this step
        shutil.rmtree(draft, ignore_errors=True)


def train(options: argparse.Namespace, rank: int) -> None:
    """Train from the last model to the last tree."""
    model, have = agree(*load(options.model))
    mine, test = rows(rank + 1), rows(0)
    print(f"rank {rank} goes on from {have} trees", flush=True)
    while have < options.trees:
        more = min(options.save_every, options.trees - have)
        model = xgboost.train(PARAMETERS, mine, num_boost_round=more, xgb_model=model)
        have += more
        publish(have, model)
        if rank == 0:
            save(options.model, model)
            error = float(np.sqrt(np.mean((model.predict(test) - test.get_label()) ** 2)))
            print(f"{have} trees, test error {error:.3f}", flush=True)
        time.sleep(options.pause)
    print(f"rank {rank}: done with {have} trees", flush=True)


def main() -> int:
    """Join the collective that the environment describes, and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each save")
    parser.add_argument("--model", type=Path, default=Path("model.json"))
    options = parser.parse_args()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    tracker = None
    if rank == 0:
        tracker = RabitTracker(n_workers=world_size, host_ip=host, port=port)
        tracker.start()
    with CommunicatorContext(dmlc_tracker_uri=host, dmlc_tracker_port=port, dmlc_task_id=str(rank), dmlc_retry=30):
        train(options, rank)
    if tracker is not None:
        tracker.wait_for()
    return 0


if __name__ == "__main__":
    sys.exit(main())
