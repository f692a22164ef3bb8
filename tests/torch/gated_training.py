"""examples/sampler/train.py under the control of a test: it writes a journal and waits at a gate.

python gated_training.py FOLDER OPTION…

Each rank appends a line to FOLDER/journal after each step. Then it waits until FOLDER/gate has a higher number than
that step.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("examples/sampler", "agent/elasticjob_agent/user_python/worker")
_PAUSE_S = 0.005


def main() -> None:
    """Train with the options of the command line."""
    folder = Path(sys.argv[1])
    sys.path[:0] = [str(ROOT / place) for place in PLACES]
    journal = os.open(folder / "journal", os.O_WRONLY | os.O_APPEND)
    known = {
        "round": int(os.environ["ELASTICJOB_ROUND"]),
        "node": int(os.environ["FLEET_AGENT"]),
        "rank": int(os.environ["RANK"]),
        "world": int(os.environ["WORLD_SIZE"]),
        "pid": os.getpid(),
    }

    # A round may end in its first second. Without a report that is no progress, and the back-off grows to minutes.
    report = importlib.import_module("elasticjob_worker").report

    def observe(step: int, samples: list[int]) -> None:
        report(step)
        os.write(journal, json.dumps({**known, "step": step, "samples": samples}).encode() + b"\n")
        while step >= int((folder / "gate").read_text()):
            time.sleep(_PAUSE_S)

    importlib.import_module("train").main(sys.argv[2:], observe)


if __name__ == "__main__":
    main()
