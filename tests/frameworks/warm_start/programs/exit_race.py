"""Ends while a thread of gloo frees a tensor, which needs Python's lock: then the process may end by SIGABRT.

This is no fault of a warm start. The program shows how often cold and warm workers end so; see docs/warm-start.md.
With DESTROY_PROCESS_GROUP it ends as a script should, and this never happens.
"""

import os

import torch
import torch.distributed as dist
from report import report

REDUCTIONS = 60

torch.set_num_threads(1)
dist.init_process_group("gloo")
tensors = [torch.full((1000,), float(place)) for place in range(REDUCTIONS)]
pending = [dist.all_reduce(each, async_op=True) for each in tensors]
for each in pending[:-1]:
    each.wait()
report((each.numpy().tobytes() for each in tensors[:-1]), tensors[0][0].item())
del tensors, pending
if os.environ.get("DESTROY_PROCESS_GROUP"):
    dist.barrier()
    dist.destroy_process_group()
