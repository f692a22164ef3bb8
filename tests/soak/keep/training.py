"""A worker whose state is a chain of hashes, and which publishes its part of each step: standard library only.

    training.py JOURNAL ORDERS STEP_S PART_BYTES FORM LAG_S

The state after a step is a hash of the state before, the round in which it was done, and its number. So equal states
have the same steps of the same rounds behind them. FORM is `parts` (each rank publishes its own) or `copies` (one
worker of each node publishes the whole state). With a LAG_S above 0 a thread publishes, up to so many seconds later.

The ranks of a round do each step together: rank 0 counts them. A rank that loses the others exits with 1.
"""

import contextlib
import hashlib
import json
import os
import queue
import random
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ENV = os.environ
RANK, WORLD = int(_ENV["RANK"]), int(_ENV["WORLD_SIZE"])
KEEP, KEPT = _ENV.get("ELASTICJOB_KEEP"), _ENV.get("ELASTICJOB_KEPT")
_PATIENCE_S = 30.0
_HEADER = "state.json"


class Violation(Exception):
    """A restored directory is not what was published."""


class Journal:
    """The file of all events of a job."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, event: str, **fields: object) -> None:
        """Append one event, with what identifies this worker."""
        line = {
            "t": time.time(),
            "event": event,
            "round": int(_ENV["ELASTICJOB_ROUND"]),
            "lineage": Path(KEEP).name if KEEP else "",
            "node": _ENV["SOAK_NODE"],
            "rank": RANK,
            **fields,
        }
        os.write(self._fd, json.dumps(line).encode() + b"\n")


def next_state(state: str, lineage: str, step: int) -> str:
    """Return the state after one more step."""
    return hashlib.sha256(f"{state} {lineage} {step}".encode()).hexdigest()


def part_bytes(state: str, index: int, parts: int, size: int) -> bytes:
    """Return the bytes of one part of a state."""
    return random.Random(f"{state}.{index}.{parts}").randbytes(size)


# --- what is published and restored ----------------------------------------------------------------------------


def write_part(folder: Path, state: str, step: int, place: tuple[int, int], size: int) -> None:
    """Write the part of this index and count into a new directory: a description, and files at two levels."""
    index, parts = place
    (folder / f"shard-{index}").mkdir(parents=True)
    header = {"state": state, "step": step, "parts": parts, "size": size}
    (folder / f"{index}.{_HEADER}").write_text(json.dumps(header))
    data = part_bytes(state, index, parts, size)
    (folder / f"weights-{index}").write_bytes(data[: size // 2])
    (folder / f"shard-{index}" / "optimizer").write_bytes(data[size // 2 :])


def read_step(folder: Path) -> tuple[str, int]:
    """Return state and number of a restored step; raise Violation if a part is missing, foreign or damaged."""
    # Unlike a glob, this raises an error if the shared directory goes away.
    names = [name for name in os.listdir(folder) if name.endswith(_HEADER)]  # noqa: PTH208
    headers = {int(name.partition(".")[0]): json.loads((folder / name).read_text()) for name in names}
    found = {(each["state"], each["step"], each["parts"]) for each in headers.values()}
    if len(found) != 1:
        raise Violation(f"{folder.name} has parts of {len(found)} steps: {sorted(found)}")
    ((state, step, parts),) = found
    if headers.keys() != set(range(parts)):
        raise Violation(f"{folder.name} has parts {sorted(headers)} of {parts}")
    for index, header in headers.items():
        data = (folder / f"weights-{index}").read_bytes() + (folder / f"shard-{index}" / "optimizer").read_bytes()
        if data != part_bytes(state, index, parts, header["size"]):
            raise Violation(f"{folder.name} has other bytes in part {index} of {parts} than were published")
    return state, step


class Publisher:
    """Publishes this worker's part of each step, at once or from a thread."""

    def __init__(self, journal: Journal, size: int, form: str, lag_s: float) -> None:
        self._journal, self._size, self._form, self._lag_s = journal, size, form, lag_s
        self._late: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        if lag_s:
            threading.Thread(target=self._publish_late, daemon=True).start()

    def publish(self, state: str, step: int) -> None:
        """Publish a step now or soon, if this worker has a part of it and its node keeps steps."""
        if KEEP is None or (self._form == "copies" and _ENV["LOCAL_RANK"] != "0"):
            return
        if self._lag_s:
            self._late.put((state, step))
        else:
            self._publish(state, step)

    def _publish_late(self) -> None:
        while True:
            state, step = self._late.get()
            time.sleep(random.uniform(0, self._lag_s))
            self._publish(state, step)

    def _publish(self, state: str, step: int) -> None:
        assert KEEP is not None
        index, parts = (RANK, WORLD) if self._form == "parts" else (0, 1)
        name = f"step-{step}.{index}-of-{parts}" if self._form == "parts" else f"step-{step}"
        identity = {"step": step, "index": index, "parts": parts, "state": state}
        draft = Path(KEEP, f"draft-{RANK}-{step}")
        try:
            write_part(draft, state, step, (index, parts), self._size)
            self._journal.write("publishing", **identity)
            draft.rename(Path(KEEP, name))
        except OSError as error:  # no room: training goes on without this step
            shutil.rmtree(draft, ignore_errors=True)
            self._journal.write("not published", step=step, error=str(error))
            return
        self._journal.write("published", **identity)


# --- the ranks of a round --------------------------------------------------------------------------------------


class Ranks:
    """All ranks of a round, which wait for each other at each step; raises OSError when one is gone."""

    def __init__(self) -> None:
        place = (_ENV["MASTER_ADDR"], int(_ENV["MASTER_PORT"]))
        self._peers = [*self._accepted(place)] if RANK == 0 else [self._dialed(place)]

    def _accepted(self, place: tuple[str, int]) -> Iterator[socket.socket]:
        with socket.create_server(place) as server:
            server.settimeout(_PATIENCE_S)
            for _ in range(WORLD - 1):
                peer = server.accept()[0]
                peer.settimeout(None)
                yield peer

    def _dialed(self, place: tuple[str, int]) -> socket.socket:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                peer = socket.create_connection(place, timeout=_PATIENCE_S)
                peer.settimeout(None)
                return peer
            if time.monotonic() > deadline:
                raise OSError(f"rank 0 cannot be reached at {place}")
            time.sleep(0.05)

    def meet(self) -> None:
        """Return when all ranks are here."""
        if RANK:
            self._peers[0].sendall(b".")
            self._receive(self._peers[0])
            return
        for peer in self._peers:
            self._receive(peer)
        for peer in self._peers:
            peer.sendall(b".")

    @staticmethod
    def _receive(peer: socket.socket) -> None:
        if not peer.recv(1):
            raise OSError("a rank has ended")


def restore(journal: Journal) -> tuple[str, int]:
    """Return state and number of the restored step, and record them; raise Violation if it is not a whole step."""
    state, step = read_step(Path(KEPT)) if KEPT else ("", 0)
    if KEPT and step != int(_ENV["ELASTICJOB_KEPT_STEP"]):
        raise Violation(f"{KEPT} has step {step}, and ELASTICJOB_KEPT_STEP is {_ENV['ELASTICJOB_KEPT_STEP']}")
    restored: dict[str, Any] = {"restored": Path(KEPT).name if KEPT else "", "step": step, "state": state}
    journal.write("running", pid=os.getpid(), world=WORLD, **restored)
    return state, step


def train(ranks: Ranks, publisher: Publisher, begin: tuple[str, int], orders: Path, step_s: float) -> None:
    """Train from the state and step of `begin` until the end is ordered."""
    state, step = begin
    lineage = Path(KEEP).name if KEEP else f"{_ENV['ELASTICJOB_ROUND']}.unknown"
    while not orders.exists():
        time.sleep(step_s)
        ranks.meet()
        step += 1
        state = next_state(state, lineage, step)
        publisher.publish(state, step)


def main(*words: str) -> int:
    """Return 0 at the ordered end, 1 when a rank was lost, 99 after a violation."""
    journal_path, orders, step_s, size, form, lag_s = words
    journal = Journal(journal_path)
    try:
        begin = restore(journal)
        publisher = Publisher(journal, int(size), form, float(lag_s))
        train(Ranks(), publisher, begin, Path(orders), float(step_s))
    except Violation as error:
        journal.write("violation", text=str(error))
        return 99
    except OSError as error:
        if Path(orders).exists():  # the others saw the order first
            return 0
        print(f"rank {RANK}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
