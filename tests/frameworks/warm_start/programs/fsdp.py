"""Three steps of fully_shard (FSDP2) over gloo."""

import gc

import torch
import torch.distributed as dist
from report import report
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS = 3


def main() -> None:
    """Train, and report the parameters and the last loss."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(3)))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 64)).square().mean()
        loss.backward()
        optimizer.step()
    report([each.full_tensor().detach().numpy().tobytes() for each in model.parameters()], loss.item())


if __name__ == "__main__":
    main()
    # After the model is gone: freed later, it would free the group and could hang. See docs/warm-start.md.
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
