"""DistributedDataParallel over gloo in a pod. Each round trains from the same seeds, and prints its first steps.

A line of the output is one step of one rank, as JSON. After the printed steps the training goes on without end.
"""

import json
import os
import sys
import time
from pathlib import Path

IS_WARM = "torch" in sys.modules

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

PRINTED = int(sys.argv[1])
PAUSE_S = 0.02

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(256, 10))
model = DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(model.parameters())
torch.manual_seed(100 + dist.get_rank())


def train() -> float:
    """Train one batch; return its loss."""
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(0, 10, (32,)))
    loss.backward()
    optimizer.step()
    return float(loss.item())


def report(step: int, loss: float) -> None:
    """Print a step; the first one is also reported as progress, so that no restart is delayed."""
    line = {
        "round": int(os.environ["ELASTICJOB_ROUND"]),
        "step": step,
        "rank": dist.get_rank(),
        "at_s": time.time(),
        "loss": loss.hex(),
        "is_warm": IS_WARM,
        "pid": os.getpid(),
    }
    print(json.dumps(line), flush=True)
    if step == 1 and (progress := os.environ.get("ELASTICJOB_PROGRESS")):
        Path(progress).write_text(json.dumps({"step": step}) + "\n")


done = 0
while True:
    batch_loss = train()
    done += 1
    if done <= PRINTED:
        report(done, batch_loss)
    time.sleep(PAUSE_S)
