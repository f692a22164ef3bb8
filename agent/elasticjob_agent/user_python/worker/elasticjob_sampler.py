"""Optional sampler for a training script: the same global batches in the same order, however many ranks there are.

It is one file that needs only the standard library of Python 3.8 or newer. Import it as `from elasticjob_agent import
sampler`, or copy it. The samples of a rank are a pure function of seed, epoch, position, rank and number of ranks. So
nothing but the number of trained steps is kept with a checkpoint, and the next round may have any size.

    sampler = ElasticBatchSampler(len(data), global_batch_size=256, micro_batch_size=32)
    loader = DataLoader(data, batch_sampler=sampler, num_workers=4)
    while step < steps:
        sampler.set_step(step)
        for micro, (inputs, targets) in zip(sampler.micro_batches(), loader):
            loss = criterion(model(inputs), targets) * micro.scale
            loss.backward()
            if micro.is_last:
                optimizer.step()
                optimizer.zero_grad()
                step += 1
"""

import hashlib
import math
import operator
import os
import struct
from typing import Iterable, Iterator, List, NamedTuple, Optional, SupportsIndex, Tuple, TypeVar, Union

T = TypeVar("T")

_MASK = (1 << 64) - 1


class MicroBatch(NamedTuple):
    """Samples that one rank computes at once. It is a part of the rank's share of a global batch."""

    indices: List[int]
    """The samples."""
    scale: float
    """The factor for the mean loss of these samples. With it, the gradient that DDP or FSDP averages over the ranks is
    the mean over the global batch. It is 0 for a sample that only fills an empty share."""
    is_last: bool
    """Whether the step ends with it: gradients are synchronized, and the optimizer makes its step."""


class Permutation:
    """A pseudo-random order of the numbers below `size`, computed one by one: it needs no memory.

    It is the same on each machine and in each version of Python. It is an alternating Feistel network over a table
    of about the square root of `size` rows and columns. Numbers beyond `size` are permuted again (cycle walking).
    """

    def __init__(self, size: int, seed: int = 0, epoch: int = 0) -> None:
        size, epoch = _whole("size", size), _whole("epoch", epoch)
        self._size = size
        self._rows = math.isqrt(max(size - 1, 0)) + 1
        self._columns = -(-size // self._rows)
        digest = hashlib.sha512(f"elasticjob sampler 1: {seed} {epoch}".encode()).digest()
        keys = struct.unpack("<8Q", digest)
        self._keys = tuple((keys[at], keys[at + 1]) for at in range(0, len(keys), 2))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        return (self[place] for place in range(self._size))

    def __getitem__(self, place: int) -> int:
        """Return the number at this place. Raises IndexError beyond the last one."""
        place = _whole("place", place)
        if not 0 <= place < self._size:
            raise IndexError(f"place {place} of {self._size}")
        place = self._permute(place)
        while place >= self._size:
            place = self._permute(place)
        return place

    def _permute(self, place: int) -> int:
        row, column = divmod(place, self._columns)
        for row_key, column_key in self._keys:
            row = (row + _mix(column ^ row_key)) % self._rows
            column = (column + _mix(row ^ column_key)) % self._columns
        return row * self._columns + column


class ElasticBatchSampler:
    """The micro-batches of one rank, for the argument `batch_sampler` of torch's DataLoader or for any loop.

    An iteration begins at the position and ends with the epoch. It changes nothing here, so loaders may read ahead.

    Args:
        num_samples: the size of the data set.
        global_batch_size: samples of one step, on all ranks together.
        micro_batch_size: samples that one rank computes at once, at most; all of its share if None.
        num_replicas: number of ranks; `WORLD_SIZE` if None.
        rank: this rank; `RANK` if None.
        shuffle: whether the order is a new permutation in each epoch, or that of the data.
        seed: the same number on all ranks.
        drop_last: whether the samples after the last full global batch are left out; else the last one is smaller.

    Raises:
        TypeError: a size or the rank is no whole number.
        ValueError: a size is below 1, the rank does not exist, or an epoch has no global batch.
    """

    def __init__(
        self,
        num_samples: int,
        global_batch_size: int,
        micro_batch_size: Optional[int] = None,
        *,
        num_replicas: Optional[int] = None,
        rank: Optional[int] = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        micro_batch_size = global_batch_size if micro_batch_size is None else micro_batch_size
        num_replicas = int(os.environ.get("WORLD_SIZE", "1")) if num_replicas is None else num_replicas
        rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.num_samples = _whole("num_samples", num_samples)
        self.global_batch_size = _whole("global_batch_size", global_batch_size)
        self.micro_batch_size = _whole("micro_batch_size", micro_batch_size)
        self.num_replicas = _whole("num_replicas", num_replicas)
        self.rank = _whole("rank", rank)
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        self.position = 0
        self._validate()
        whole, rest = divmod(self.num_samples, self.global_batch_size)
        self.steps_per_epoch = whole if drop_last or not rest else whole + 1
        if not self.steps_per_epoch:
            raise ValueError(f"{num_samples} samples make no global batch of {global_batch_size}")

    def set_step(self, step: int) -> None:
        """Begin after so many steps of the training: the epoch and the position in it follow from their number.

        Raises:
            TypeError: it is no whole number.
            ValueError: it is negative.
        """
        step = _whole("step", step)
        if step < 0:
            raise ValueError(f"step {step}: no step is below 0")
        self.epoch, self.position = divmod(step, self.steps_per_epoch)

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch, as in torch's DistributedSampler; the position remains if it is the present epoch.

        Raises:
            TypeError: it is no whole number.
        """
        epoch = _whole("epoch", epoch)
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def micro_batches(self) -> Iterator[MicroBatch]:
        """Return the micro-batches from the position to the end of the epoch."""
        order: Union[Permutation, range] = range(self.num_samples)
        if self.shuffle:
            order = Permutation(self.num_samples, self.seed, self.epoch)
        places = self._places(self.position)
        return (
            MicroBatch([order[place] for place in range(first, max(end, first + 1))], scale, is_last)
            for first, end, scale, is_last in places
        )

    def select(self, samples: Iterable[T]) -> Iterator[Tuple[MicroBatch, List[T]]]:
        """Yield each micro-batch with its samples from a stream: any iterable of the epoch's samples in their order.

        Each rank reads the stream from its beginning and leaves out the samples of others.

        Raises:
            ValueError: the sampler shuffles, or the stream has fewer than `num_samples`.
        """
        if self.shuffle:
            raise ValueError("a stream has its own order: shuffle=False")
        numbered = enumerate(samples)
        at = -1
        for micro in self.micro_batches():
            chosen = []
            for index in micro.indices:
                while at < index:
                    try:
                        at, sample = next(numbered)
                    except StopIteration:
                        raise ValueError(f"the stream ended after {at + 1} of {self.num_samples} samples") from None
                chosen.append(sample)
            yield micro, chosen

    def __iter__(self) -> Iterator[List[int]]:
        """Return the samples of each micro-batch, from the position to the end of the epoch."""
        return (micro.indices for micro in self.micro_batches())

    def __len__(self) -> int:
        """Return the number of micro-batches from the position to the end of the epoch."""
        return sum(self._micro_batches_of(position) for position in range(self.position, self.steps_per_epoch))

    def _places(self, position: int) -> Iterator[Tuple[int, int, float, bool]]:
        """Yield first place, end, scale, and whether the step ends, of each micro-batch from a position on."""
        for each in range(position, self.steps_per_epoch):
            start, size = each * self.global_batch_size, self._size_of(each)
            share_start, share_end = _part(size, self.num_replicas, self.rank)
            count = self._micro_batches_of(each)
            for number in range(count):
                first, end = _part(share_end - share_start, count, number)
                scale = self.num_replicas * (end - first) / size
                yield start + share_start + first, start + share_start + end, scale, number == count - 1

    def _size_of(self, position: int) -> int:
        """Return the size of a global batch; only the last one of an epoch may be smaller."""
        return min(self.global_batch_size, self.num_samples - position * self.global_batch_size)

    def _micro_batches_of(self, position: int) -> int:
        """Return the number of micro-batches of a step: on all ranks the same, since FSDP needs all of them in each."""
        largest_share = -(-self._size_of(position) // self.num_replicas)
        return -(-largest_share // self.micro_batch_size)

    def _validate(self) -> None:
        for name in ("num_samples", "global_batch_size", "micro_batch_size", "num_replicas"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; the least is 1")
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"rank {self.rank} of {self.num_replicas} does not exist")


def _whole(name: str, value: SupportsIndex) -> int:
    """Return this number as an `int`; raise TypeError if it is no whole number."""
    # Integers of NumPy overflow. The order follows from the text of the epoch, and that of True or 1.0 is not "1".
    try:
        return int(operator.index(value))
    except TypeError:
        raise TypeError(f"{name} is {value!r:.80}; pass a whole number, an int") from None


def _part(count: int, parts: int, part: int) -> Tuple[int, int]:
    """Return the first place and the end of one of several almost equal parts."""
    return count * part // parts, count * (part + 1) // parts


def _mix(value: int) -> int:
    """Return 64 bits, each of which depends on all bits of the value (MurmurHash3)."""
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return value ^ (value >> 33)
