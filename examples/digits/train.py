"""Train a digit classifier data-parallel on any number of workers, and prove in the end that it was done right.

Started by any torchrun-compatible launcher; without one it runs as a single process. A worker may be killed at any
time. After a restart of all workers, training continues from the newest checkpoint on any of the nodes. Parameters are
never sent between steps: every rank adds the same sums to the same numbers.
"""

import os
import sys
import time
from contextlib import ExitStack

import proof
from allreduce import Group, connect
from checkpoint import Checkpoint, parameter_hash, publish, save
from data import load_digits, schedule, steps_per_epoch
from errors import CheckpointError, DigitsError, ProofError
from journal import Journal
from model import Model, Vector, descend
from progress import Progress
from resume import Start, agree_on_start
from settings import Place, Settings, read_settings
from verify import prove


class Training:
    """One worker's part in one round."""

    def __init__(self, settings: Settings, place: Place, group: Group) -> None:
        self.settings, self.place, self.group = settings, place, group
        self.digits = load_digits(settings.seed)
        self.model = Model(settings.hidden)
        self.per_epoch = steps_per_epoch(len(self.digits.y), settings.batch)
        self.total = settings.epochs * self.per_epoch
        self.folder = settings.folder(place.checkpoint_dir)
        self.progress = Progress(place.progress if place.rank == 0 else None)

    def run(self) -> bool:
        """Train to the end; return True if all promises of the example are kept."""
        # One worker per node reads and writes the node's folder.
        folder = self.folder if self.place.local_rank == 0 else None
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = Checkpoint(0, 0, (), self.model.initial(self.settings.seed))
        kept = self.place.kept
        start = agree_on_start(self.group, folder, round_=self.place.round, fresh=fresh, kept=kept)
        if start.checkpoint.step > self.total:
            raise CheckpointError(f"{self.folder} is at step {start.checkpoint.step}, beyond --epochs ({self.total})")
        begins = f"go on from step {start.checkpoint.step}" if start.checkpoint.step else "start"
        self._say(f"round {self.place.round}: {self.group.world_size} workers {begins}")
        with ExitStack() as stack:
            journal = None
            if folder is not None:
                opened = Journal(folder, node=self.place.node, attempt=start.attempt, before=start.before)
                journal = stack.enter_context(opened)
            final = self._train(start, journal)
        self.group.doing = "the end"
        return prove(self.group, final, folder=folder, settings=self.settings, digits=self.digits)

    def _train(self, start: Start, journal: Journal | None) -> Checkpoint:
        checkpoint = start.checkpoint
        for epoch in range(checkpoint.step // self.per_epoch, self.settings.epochs):
            parameters, loss = self._epoch(epoch, checkpoint.parameters, journal)
            step = (epoch + 1) * self.per_epoch
            self.compare(parameters, step)
            done_here = proof.Segment(self.place.round, self.group.world_size, start.attempt.start + 1, step)
            checkpoint = Checkpoint(step, start.attempt.number, (*start.checkpoint.lineage, done_here), parameters)
            if journal is not None:
                journal.checkpoint(step, save(self.folder, checkpoint, node=self.place.node))
                if self.place.keep is not None:
                    publish(self.place.keep, checkpoint)
            self._report(step, loss, parameters)
        return checkpoint

    def _epoch(self, epoch: int, parameters: Vector, journal: Journal | None) -> tuple[Vector, float]:
        """Train one pass over the data; return the new parameters and the mean loss."""
        digits, settings, group, loss = self.digits, self.settings, self.group, 0.0
        batches = schedule(len(digits.y), settings.batch, seed=settings.seed, epoch=epoch)
        for step, batch in enumerate(batches, start=epoch * self.per_epoch + 1):
            group.doing = f"step {step}"
            ends_at = time.monotonic() + settings.step_seconds
            shard = batch[group.rank :: group.world_size]
            sums = group.all_reduce(self.model.sums(parameters, digits.x[shard], digits.y[shard]))
            parameters = descend(parameters, sums[:-2], rate=settings.lr, samples=len(batch))
            loss += sums[-2]
            if journal is not None:
                journal.step(step)
            time.sleep(max(0.0, ends_at - time.monotonic()))
        return parameters, loss / len(digits.y)

    def compare(self, parameters: Vector, step: int) -> None:
        """Raise ProofError, on every rank alike, unless all ranks have equal parameters to the last bit."""
        hashes = self.group.all_gather(parameter_hash(parameters))
        if difference := proof.differing_ranks(hashes):
            raise ProofError(f"parameters differ at the checkpoint of step {step}: {difference}")

    def _report(self, step: int, loss: float, parameters: Vector) -> None:
        if self.place.rank != 0:
            return
        accuracy = self.model.accuracy(parameters, self.digits.x_test, self.digits.y_test)
        self._say(f"step {step}/{self.total} loss {loss:.3f} test accuracy {accuracy:.3f}")
        self.progress.report(step, self.total, loss=f"{loss:.3f}", accuracy=f"{accuracy:.3f}")

    def _say(self, line: str) -> None:
        if self.place.rank == 0:
            print(line, flush=True)


def main() -> int:
    """Return 0 if training ended and the proof holds, else 1 with one line with the reason."""
    settings = read_settings(sys.argv[1:])
    place = Place.from_environment(os.environ)
    try:
        with connect(place.caller, place.master_addr, place.master_port) as group:
            return 0 if Training(settings, place, group).run() else 1
    except (DigitsError, OSError) as error:
        # OSError: a full disk, a folder without write permission. Its text has the cause.
        print(f"rank {place.rank}: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
