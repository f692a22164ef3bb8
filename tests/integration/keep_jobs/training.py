"""A worker that trains step by step and publishes its part of each step: standard library only.

    training.py TRACE ORDERS

It trains up to the step in the file ORDERS/target, then waits for a higher one, or for ORDERS/finish. The state of the
training has the numbers of all steps so far. So it shows a step that is lost or done twice.
"""

import json
import os
import sys
import time
from pathlib import Path

TRACE, ORDERS = Path(sys.argv[1]), Path(sys.argv[2])
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PADDING = " " * int(os.environ.get("TRAINING_PADDING", "0"))
"""Bytes behind the state, for transfers that take a while."""
KEEP, KEPT = os.environ.get("ELASTICJOB_KEEP"), os.environ.get("ELASTICJOB_KEPT")


def record(point: str, **fields: object) -> None:
    """Write one line to the trace."""
    line = {
        "t_us": time.time_ns() // 1000,
        "agent": "worker",
        "of": int(os.environ["FLEET_AGENT"]),
        "round": int(os.environ["ELASTICJOB_ROUND"]),
        "rank": RANK,
        "pid": os.getpid(),
        "point": point,
        **fields,
    }
    fd = os.open(TRACE, os.O_WRONLY | os.O_APPEND)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


def restore() -> list[int]:
    """Return the steps of the kept training, which all parts must have alike."""
    if KEPT is None:
        return []
    found = {path.name: path.read_text() for path in Path(KEPT).iterdir()}
    assert set(found) == {f"part-{index}" for index in range(len(found))}, f"not all parts are here: {sorted(found)}"
    (text,) = set(found.values())
    steps = [int(word) for word in text.split()]
    assert steps[-1] == int(os.environ["ELASTICJOB_KEPT_STEP"]), text
    return steps


def publish(steps: list[int]) -> None:
    """Publish this worker's part of the newest step."""
    if KEEP is None:
        return
    scratch = Path(KEEP, f"scratch-{RANK}")
    scratch.mkdir()
    (scratch / f"part-{RANK}").write_text(" ".join(map(str, steps)) + PADDING)
    scratch.rename(Path(KEEP, f"step-{steps[-1]}.{RANK}-of-{WORLD}"))


def target() -> int:
    """Return the step up to which to train."""
    try:
        return int((ORDERS / "target").read_text())
    except FileNotFoundError:
        return 0


def main() -> None:
    """Train until the end is ordered."""
    steps = restore()
    restored = steps[-1] if steps else None
    record("running", restored=restored, steps=len(steps), keeps=KEEP is not None, world=WORLD)
    while not (ORDERS / "finish").exists():
        if (steps[-1] if steps else 0) < target():
            steps.append((steps[-1] if steps else 0) + 1)
            publish(steps)
            record("published", step=steps[-1])
        else:
            time.sleep(0.005)


main()
