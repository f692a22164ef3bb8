"""XGBoost over its own collective (rabit).

A rank that dials before the tracker listens sleeps for seconds. So all ranks wait for a file of rank 0.
"""

import marks

marks.begin("xgboost")
import os  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import xgboost  # noqa: E402
from xgboost.tracker import RabitTracker  # noqa: E402

marks.mark("imported")


class Marks(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # mypy runs without XGBoost
    """Marks each tree as a step."""

    def after_iteration(self, _model: object, epoch: int, _evals_log: object) -> bool:
        """Mark a tree; return that the training goes on."""
        marks.step_done(epoch + 1)
        return False


rank, world, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
tracker_listens = Path(f"{sys.argv[1]}.{port}")
if rank == 0:
    tracker = RabitTracker(host_ip=os.environ["MASTER_ADDR"], n_workers=world, port=port)
    tracker.start()
    tracker_listens.touch()
while not tracker_listens.exists():
    time.sleep(0.002)
address = {
    "dmlc_tracker_uri": os.environ["MASTER_ADDR"],
    "dmlc_tracker_port": port,
    "dmlc_task_id": str(rank),
    "dmlc_retry": 60,
}
with xgboost.collective.CommunicatorContext(**address):
    marks.mark("process group")
    rows = np.random.default_rng(rank).normal(size=(400, 8))
    matrix = xgboost.DMatrix(rows, (rows[:, 0] > 0).astype(float), nthread=1)
    options = {"nthread": 1, "max_depth": 1, "objective": "binary:logistic", "tree_method": "hist"}
    marks.mark("model")
    xgboost.train(options, matrix, 1_000_000, callbacks=[Marks()])
