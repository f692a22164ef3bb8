"""A torch worker of `benchmarks.processes.warm_memory`: DDP on gloo, steps of some milliseconds, without an end.

    python warm_worker.py FOLDER STEPS     STEPS 0: it steps until it is killed; else it waits behind them

It writes the end of each step into FOLDER, as a double of the monotonic clock.
"""

import os
import struct
import sys
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

_SIZE = 192
_LAYERS = 4


def main() -> None:
    """Train until killed."""
    folder, steps = sys.argv[1], int(sys.argv[2])
    rank = os.environ["RANK"]
    torch.distributed.init_process_group("gloo")
    layers = [torch.nn.Linear(_SIZE, _SIZE) for _ in range(_LAYERS)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    log = os.open(f"{folder}/steps-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    done = 0
    while done < steps or not steps:
        loss = model(torch.randn(_SIZE, _SIZE)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        os.write(log, struct.pack("d", time.monotonic()))
        done += 1
    while True:
        time.sleep(3600)


main()
