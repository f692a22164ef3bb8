"""A worker of a measured job: it publishes a small whole step every tenth of a second until it is ordered to fail.

    publishing_worker.py TRACE ORDERS

Without ELASTICJOB_KEEP it only waits. The standard library only, so that its start takes little.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

_PERIOD_S, _LOOK_S = 0.1, 0.005
KEEP, KEPT = os.environ.get("ELASTICJOB_KEEP"), os.environ.get("ELASTICJOB_KEPT")
RANK = os.environ["RANK"]


def note(point: str, **fields: object) -> None:
    """Append one line to the trace."""
    line = {"t_us": time.time_ns() // 1000, "agent": "worker", "round": int(os.environ["ELASTICJOB_ROUND"])}
    line |= {"of": int(os.environ["FLEET_AGENT"]), "rank": int(RANK), "pid": os.getpid(), "point": point}
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    os.write(fd, json.dumps(line | fields).encode() + b"\n")
    os.close(fd)


def publish(step: int) -> None:
    """Publish the whole state, if steps are kept here."""
    if KEEP:
        with contextlib.suppress(OSError):
            draft = Path(KEEP, "draft")
            draft.mkdir()
            (draft / "state").write_text(str(step) * 1000)
            draft.rename(Path(KEEP, f"step-{step}"))


def main() -> None:
    """Publish until the end."""
    step = int(os.environ.get("ELASTICJOB_KEPT_STEP", "0"))
    note("running", restored=KEPT is not None)
    next_s = 0.0
    orders = Path(sys.argv[2])
    while not (orders / "finish").exists():
        if (orders / RANK).exists():
            (orders / RANK).unlink()
            note("exits")
            sys.exit(1)
        if time.monotonic() >= next_s:
            step += 1
            publish(step)
            if not next_s:
                note("published")
            next_s = time.monotonic() + _PERIOD_S
        time.sleep(_LOOK_S)


main()
