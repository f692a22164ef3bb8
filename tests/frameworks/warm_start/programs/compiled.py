"""Three steps of a model that torch.compile translates with a cache of its own for each run."""

import torch
import torch.distributed as dist
from report import report

STEPS = 3

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
torch.manual_seed(100 + dist.get_rank())
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = compiled(torch.randn(8, 16)).square().mean()
    loss.backward()
    for each in model.parameters():
        dist.all_reduce(each.grad)
    optimizer.step()
report((each.detach().numpy().tobytes() for each in model.parameters()), loss.item())
dist.barrier()
dist.destroy_process_group()
