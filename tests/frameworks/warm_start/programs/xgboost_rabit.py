"""Three trees of XGBoost over its own collective (rabit).

A rank that dials before the tracker listens sleeps for seconds. So all ranks wait for a file of rank 0.

Each rank dials the tracker once more at its end. The end of rank 0 closes the tracker, so it waits for the others. A
rank that dialled later would sleep for up to an hour in all (2 s, 4 s, …, 60 times by `dmlc_retry`).
"""

import os
import time
from pathlib import Path

import numpy as np
import xgboost
from report import report
from xgboost.tracker import RabitTracker

TREES = 3
ROWS = 400

rank, world, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
tracker_listens = Path(os.environ["OUTPUT_FOLDER"], f"tracker-{port}")
if rank == 0:
    tracker = RabitTracker(host_ip="127.0.0.1", n_workers=world, port=port)
    tracker.start()
    tracker_listens.touch()
while not tracker_listens.exists():
    time.sleep(0.002)
address = {"dmlc_tracker_uri": "127.0.0.1", "dmlc_tracker_port": port, "dmlc_task_id": str(rank), "dmlc_retry": 60}
with xgboost.collective.CommunicatorContext(**address):
    generator = np.random.default_rng(7 + rank)
    rows = generator.normal(size=(ROWS, 8))
    labels = (rows[:, 0] * rows[:, 1] > 0).astype(float)
    options = {"nthread": 1, "max_depth": 3, "objective": "binary:logistic", "tree_method": "hist", "seed": 0}
    trees = xgboost.train(options, xgboost.DMatrix(rows, labels, nthread=1), TREES)
    report([trees.save_raw("json")], float(trees.predict(xgboost.DMatrix(rows, nthread=1))[0]))
if rank == 0:
    tracker.wait_for()
    tracker_listens.unlink()
