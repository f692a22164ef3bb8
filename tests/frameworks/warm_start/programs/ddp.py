"""Three steps of DistributedDataParallel over gloo; each rank has its own random numbers."""

import torch
import torch.distributed as dist
from report import report
from torch.nn.parallel import DistributedDataParallel

STEPS = 3


def main() -> None:
    """Train, and report the parameters and the last loss."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    layers = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(256, 10)
    )
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.AdamW(model.parameters())
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(0, 10, (32,)))
        loss.backward()
        optimizer.step()
    report((each.detach().numpy().tobytes() for each in model.parameters()), loss.item())


if __name__ == "__main__":
    main()
    # After the model is gone: freed later, it would free the group and could hang. See docs/warm-start.md.
    dist.barrier()
    dist.destroy_process_group()
