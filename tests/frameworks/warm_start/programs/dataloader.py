"""DDP over batches that two processes of a DataLoader load; START_METHOD chooses how these are started."""

import os

import torch
import torch.distributed as dist
from report import report
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):  # type: ignore[misc]  # mypy runs without torch
    """Rows with noise of the process that loads them."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, place: int) -> torch.Tensor:
        return torch.full((16,), float(place)) + torch.rand(16)


def main() -> None:
    """Train one pass over the rows, twice: the processes of the loader persist."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-5)
    torch.manual_seed(100 + dist.get_rank())
    loader = DataLoader(
        Rows(),
        batch_size=8,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=os.environ["START_METHOD"],
    )
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
    report((each.detach().numpy().tobytes() for each in model.parameters()), loss.item())


if __name__ == "__main__":
    main()
    # After the model is gone: freed later, it would free the group and could hang. See docs/warm-start.md.
    dist.barrier()
    dist.destroy_process_group()
