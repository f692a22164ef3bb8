"""A worker in a pod that publishes each step of an exact training, and restores a kept one.

    kept.py SHAPE STEPS

It trains up to the step in the file TARGET of its pod, and waits there for a higher one. The job ends after STEPS. A
line of the output is one event of one rank, as JSON.
"""

import json
import os
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from allreduce import Caller, Group, connect

from e2e.training.exact import ALONE, SAMPLES, SHARDED, State, Vector, descend, first_state, gradient, read, write

TARGET = Path("/tmp/target")
_PATIENCE_S = 900.0


class Worker:
    """One rank of a round."""

    def __init__(self, shape: str, steps: int, group: Group | None, environment: dict[str, str]) -> None:
        """`group` is None if this rank trains without the others."""
        self.shape, self.steps, self.group = shape, steps, group
        self.rank, self.world = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        self.round = int(environment["ELASTICJOB_ROUND"])
        self.keep = environment.get("ELASTICJOB_KEEP")
        self.progress = environment.get("ELASTICJOB_PROGRESS")
        kept = environment.get("ELASTICJOB_KEPT")
        self.restored = int(environment["ELASTICJOB_KEPT_STEP"]) if kept else None
        self.state = first_state() if kept is None else read(Path(kept), self.restored or 0)

    def run(self) -> None:
        """Train to the end."""
        self.report("began", restored=self.restored, digest=self.state.digest(), segments=self.state.segments)
        first, before = self.state.step + 1, self.state.segments
        while self.state.step < self.steps:
            self.wait()
            step = self.state.step + 1
            self.state = State(step, (*before, (self.round, first, step)), self.next_parameters())
            self.publish()
        self.report("ended", digest=self.state.digest(), segments=self.state.segments)

    def wait(self) -> None:
        """Wait until the next step is ordered."""
        while self.state.step >= target():
            time.sleep(0.01)

    def next_parameters(self) -> Vector:
        """Train one step."""
        if self.group is None:
            return descend(self.state, gradient(self.state, range(SAMPLES)))
        return descend(self.state, self.group.all_reduce(gradient(self.state, range(self.rank, SAMPLES, self.world))))

    def publish(self) -> None:
        """Publish this rank's part of the state, or all of it; without room for it, train on."""
        if self.keep is None:
            return
        draft, step = Path(self.keep, f"draft-{self.rank}"), self.state.step
        part, parts = (self.rank, self.world) if self.shape == SHARDED else (0, 1)
        try:
            draft.mkdir()
            write(self.state, draft, part=part, parts=parts)
            draft.rename(Path(self.keep, f"step-{step}.{part}-of-{parts}"))
        except OSError as error:
            shutil.rmtree(draft, ignore_errors=True)
            self.report("skipped", error=str(error), step=step)
        else:
            self.report("published", step=step)

    def report(self, event: str, **fields: Any) -> None:
        """Print an event; a step is also reported as progress, so that no restart is delayed."""
        line = {"event": event, "round": self.round, "rank": self.rank, "world": self.world, **fields}
        print(json.dumps(line), flush=True)
        if self.progress and event == "published":
            Path(self.progress).write_text(json.dumps({"step": fields["step"]}) + "\n")


def target() -> int:
    """Return the step up to which to train."""
    try:
        return int(TARGET.read_text())
    except FileNotFoundError:
        return 0


def main() -> None:
    """Train."""
    environment = dict(os.environ)
    rank, world, round_ = (int(environment[name]) for name in ("RANK", "WORLD_SIZE", "ELASTICJOB_ROUND"))
    shape, steps = sys.argv[1], int(sys.argv[2])
    with ExitStack() as stack:
        group = None
        if shape != ALONE:
            place = environment["MASTER_ADDR"], int(environment["MASTER_PORT"])
            group = stack.enter_context(connect(Caller(rank, world, round_), *place, patience_s=_PATIENCE_S))
        Worker(shape, steps, group, environment).run()


if __name__ == "__main__":
    main()
