"""A worker that follows a test's orders: standard library only, run as a file by `scripted_fleet.ScriptedFleet`.

    scripted_worker.py TRACE ORDERS [--progress] [--save SIGNAL] [--stubborn | --doomed]

It notes "running" in the trace and reads orders for its own round. ORDERS/<round>.json is `{"<rank>": {...}}`, with
`"*"` for every rank. An order is `{"after_s": 0.003, "say": "boom", "exit": 1}`, `{"signal": 11}`, or `{"fill": true}`
for all memory. ORDERS/finish means exit 0.

With --save it answers that signal by the point `told`, waits for ORDERS/go, notes "saved" and exits 0. With --stubborn
it only notes SIGTERM as `told`. With --doomed it carries out an order to crash or to print even if SIGTERM comes first,
like a process that is dying already.
"""

import contextlib
import gc
import json
import os
import signal
import sys
import time
from types import FrameType

TRACE, ORDERS, *OPTIONS = sys.argv[1:]
ROUND, RANK = int(os.environ["ELASTICJOB_ROUND"]), os.environ["RANK"]
WORKER_OUTPUT = ("RANK", "WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "ELASTICJOB_ROUND")


def record(point: str) -> None:
    """Write one line to the trace."""
    line = {
        "t_us": time.time_ns() // 1000,
        "agent": "worker",
        "of": int(os.environ["FLEET_AGENT"]),
        "round": ROUND,
        "rank": int(RANK),
        "pid": os.getpid(),
        "point": point,
        "warm": gc.get_freeze_count() > 0,
        "env": {name: os.environ.get(name) for name in WORKER_OUTPUT},
    }
    fd = os.open(TRACE, os.O_WRONLY | os.O_APPEND)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


def save(_number: int, _frame: FrameType | None) -> None:
    """Save a checkpoint; the test decides when it ends."""
    record("told")
    while not os.path.exists(ORDERS + "/go"):  # noqa: PTH110 -- os is all that is needed here
        time.sleep(0.01)
    record("saved")
    os._exit(0)


def crash_anyway(_number: int, _frame: FrameType | None) -> None:
    """Handle SIGTERM with or without an order to crash; the output before a crash is complete by then."""
    mine = orders()
    if "signal" in mine:
        execute({"signal": mine["signal"]})
    if "say" in mine:
        os.write(2, f"{mine['say']}\n".encode())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def orders() -> dict[str, object]:
    """Return the orders for this rank in this round; empty without any."""
    with contextlib.suppress(FileNotFoundError), open(f"{ORDERS}/{ROUND}.json") as file:  # noqa: PTH123
        everybody = json.load(file)
        mine: dict[str, object] = everybody.get(RANK, everybody.get("*", {}))
        return mine
    return {}


def execute(order: dict[str, object]) -> None:
    """Carry out an order; does not return."""
    time.sleep(float(str(order.get("after_s", 0))))
    if "say" in order:
        os.write(2, f"{order['say']}\n".encode())
    if "signal" in order:
        os.kill(os.getpid(), int(str(order["signal"])))
    pieces = []
    while order.get("fill"):
        pieces.append(b"x" * (1 << 20))
    os._exit(int(str(order.get("exit", 0))))


def main() -> None:
    """Run until an order ends this worker."""
    if "--save" in OPTIONS:
        signal.signal(signal.Signals[OPTIONS[OPTIONS.index("--save") + 1]], save)
    if "--stubborn" in OPTIONS:
        signal.signal(signal.SIGTERM, lambda *_: record("told"))
    if "--doomed" in OPTIONS:
        signal.signal(signal.SIGTERM, crash_anyway)
    if "--progress" in OPTIONS:
        fd = os.open(os.environ["ELASTICJOB_PROGRESS"], os.O_WRONLY)
        os.write(fd, b'{"step": 1}\n')
        os.close(fd)
    record("running")
    while not os.path.exists(ORDERS + "/finish"):  # noqa: PTH110
        if mine := orders():
            execute(mine)
        time.sleep(0.01)


main()
