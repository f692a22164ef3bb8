"""DistributedDataParallel over gloo."""

import marks

marks.begin("torch")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

marks.mark("imported")
torch.set_num_threads(1)
dist.init_process_group("gloo")
marks.mark("process group")
layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
model = DistributedDataParallel(layers)
optimizer = torch.optim.AdamW(model.parameters())
marks.mark("model")


def step() -> None:
    """Train one batch."""
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(0, 10, (32,)))
    loss.backward()
    optimizer.step()


marks.train(step)
