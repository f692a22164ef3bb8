"""A worker that checks its own training. It uses only the standard library; pods of a soak run it as a file.

    trainer.py FOLDER STEPS STEP_S

Every step mixes the state with numbers that the ranks divide among themselves, and each state depends on the whole
state before. So a step that is lost, repeated or computed by the wrong ranks changes the result, and one process can
compute the right result alone. FOLDER is shared by all nodes and has the checkpoints and a journal of saves. A file
`violation` there records an error that must never occur. Such errors are a lost checkpoint, a wrong result, and two
rounds that trained at the same time on one lineage.

The round is the fencing token: a worker that finds the mark of a later round in FOLDER writes nothing more. A lost peer
is not a violation; the worker then ends with 1, as in any training.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PRIME = (1 << 61) - 1
ITEMS = 24
SAVE_EVERY = 10
_FRAME = struct.Struct("!Q")
_PATIENCE_S = 30.0


class LostPeer(Exception):
    """A rank has ended, or is not a rank of this round."""


class Fenced(Exception):
    """A later round has begun."""


class Violation(Exception):
    """An error that must never occur."""


def term(step: int, item: int) -> int:
    """Return the number that an item adds in a step."""
    return pow(31 * step + item + 7, 5, PRIME)


def part_of(state: int, step: int, rank: int, world_size: int) -> int:
    """Return a rank's share of a step."""
    return sum((state * (item + 3) + term(step, item)) % PRIME for item in range(rank, ITEMS, world_size)) % PRIME


def result_alone(steps: int) -> int:
    """Return the state after this many steps, computed by one process from the beginning."""
    state = 1
    for step in range(1, steps + 1):
        state = part_of(state, step, 0, 1)
    return state


# --- the ranks of a round --------------------------------------------------------------------------------------


def _send(peer: socket.socket, number: int) -> None:
    peer.sendall(_FRAME.pack(number))


def _receive(peer: socket.socket) -> int:
    data = b""
    while len(data) < _FRAME.size:
        piece = peer.recv(_FRAME.size - len(data))
        if not piece:
            raise LostPeer("a peer has closed its connection")
        data += piece
    number: int = _FRAME.unpack(data)[0]
    return number


class Star:
    """Connections of all ranks to rank 0; the first message has round and rank, and rank 0 refuses other rounds."""

    def __init__(self, rank: int, world_size: int, round_: int, *, patience_s: float = _PATIENCE_S) -> None:
        self.rank, self.world_size, self.round = rank, world_size, round_
        self._patience_s = patience_s
        self._peers: dict[int, socket.socket] = {}

    def meet(self, host: str, port: int) -> None:
        """Connect all ranks; raise LostPeer if they do not connect in time."""
        deadline = time.monotonic() + self._patience_s
        try:
            if self.rank == 0:
                self._welcome(host, port)
            else:
                self._peers[0] = self._reach(host, port, deadline)
        except OSError as error:
            raise LostPeer(f"rank {self.rank} met no rank at {host}:{port}: {error}") from error

    def _welcome(self, host: str, port: int) -> None:
        with socket.create_server((host, port)) as server:
            server.settimeout(self._patience_s)
            while len(self._peers) < self.world_size - 1:
                peer, _ = server.accept()
                peer.settimeout(self._patience_s)
                with contextlib.suppress(OSError, LostPeer):
                    round_, rank = divmod(_receive(peer), 1 << 20)
                    if round_ == self.round and rank not in self._peers:
                        _send(peer, self.round)
                        self._peers[rank] = peer
                        continue
                peer.close()

    def _reach(self, host: str, port: int, deadline: float) -> socket.socket:
        while True:
            try:
                peer = socket.create_connection((host, port), timeout=self._patience_s)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise LostPeer(f"rank {self.rank} cannot reach rank 0: {error}") from error
                time.sleep(0.02)
                continue
            try:
                _send(peer, (self.round << 20) + self.rank)
                if _receive(peer) == self.round:
                    return peer
            except (OSError, LostPeer):
                pass
            peer.close()
            if time.monotonic() > deadline:
                raise LostPeer(f"rank 0 of round {self.round} does not know rank {self.rank}")
            time.sleep(0.02)

    def total(self, part: int) -> int:
        """Return the sum of all ranks' parts, on every rank."""
        try:
            if self.rank:
                _send(self._peers[0], part)
                return _receive(self._peers[0])
            total = (part + sum(_receive(peer) for peer in self._peers.values())) % PRIME
            for peer in self._peers.values():
                _send(peer, total)
        except OSError as error:
            raise LostPeer(f"rank {self.rank} lost a peer: {error}") from error
        return total

    def close(self) -> None:
        """Close the connections."""
        for peer in self._peers.values():
            peer.close()


# --- files on disk ---------------------------------------------------------------------------------------------


class Store:
    """The job's folder; only rank 0 writes checkpoints."""

    def __init__(self, folder: Path, round_: int) -> None:
        self._folder, self._round = folder, round_
        folder.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def begin(self) -> dict[str, Any]:
        """Mark the round as begun; return the newest checkpoint, checked against the journal."""
        with self._locked():
            self._fence()
            (self._folder / "round").write_text(str(self._round))
            newest = self._newest()
            saved = self._saved()
            if newest["step"] < max(saved, default=0):
                raise Violation(f"checkpoint lost: step {max(saved)} was saved, the newest there is {newest['step']}")
        _check_lineage(newest)
        return newest

    def save(self, checkpoint: dict[str, Any]) -> None:
        """Write a checkpoint, unless a later round has begun."""
        text = json.dumps(checkpoint)
        body = json.dumps({"sha": hashlib.sha256(text.encode()).hexdigest(), "body": text})
        with self._locked():
            self._fence()
            path = self._folder / f"step-{checkpoint['step']:08}.json"
            if path.exists():
                raise Violation(f"step {checkpoint['step']} was saved twice, the second time by round {self._round}")
            partial = path.with_suffix(".partial")
            partial.write_text(body)
            partial.replace(path)
            with (self._folder / "journal").open("a") as journal:
                journal.write(f"{checkpoint['step']} {self._round}\n")
            for old in sorted(self._folder.glob("step-*.json"))[:-3]:
                old.unlink()

    def finish(self, state: int, steps: int) -> None:
        """Compare the result with that of one process, and write it to a file."""
        alone = result_alone(steps)
        if state != alone:
            raise Violation(f"wrong result: {state} after {steps} steps, one process gets {alone}")
        (self._folder / "result").write_text(str(state))

    def accuse(self, what: str) -> None:
        """Write a violation to its file."""
        with (self._folder / "violation").open("a") as file:
            file.write(what + "\n")

    def _fence(self) -> None:
        mark = self._folder / "round"
        latest = int(mark.read_text()) if mark.exists() else 0
        if latest > self._round:
            raise Fenced(f"round {latest} has begun, this is round {self._round}")

    def _newest(self) -> dict[str, Any]:
        for path in sorted(self._folder.glob("step-*.json"), reverse=True):
            saved = json.loads(path.read_text())
            if hashlib.sha256(saved["body"].encode()).hexdigest() != saved["sha"]:
                raise Violation(f"{path.name} is damaged")
            body: dict[str, Any] = json.loads(saved["body"])
            return body
        return {"step": 0, "state": 1, "lineage": []}

    def _saved(self) -> list[int]:
        journal = self._folder / "journal"
        return [int(line.split()[0]) for line in journal.read_text().splitlines()] if journal.exists() else []


def _check_lineage(checkpoint: dict[str, Any]) -> None:
    expected, round_before = 1, 0
    for round_, _world_size, first, last in checkpoint["lineage"]:
        if first != expected or last < first or round_ <= round_before:
            raise Violation(f"broken lineage: {checkpoint['lineage']}")
        expected, round_before = last + 1, round_
    if expected != checkpoint["step"] + 1:
        raise Violation(f"the lineage {checkpoint['lineage']} does not end at step {checkpoint['step']}")


# --- training --------------------------------------------------------------------------------------------------


def train(star: Star, store: Store, steps: int, step_s: float) -> None:
    """Train from the newest checkpoint to the end."""
    checkpoint: dict[str, Any] = store.begin() if star.rank == 0 else {"step": 0, "state": 0, "lineage": []}
    # The parts of the other ranks are 0: the sum is rank 0's.
    start, state = star.total(checkpoint["step"]), star.total(checkpoint["state"])
    for step in range(start + 1, steps + 1):
        state = star.total(part_of(state, step, star.rank, star.world_size))
        if star.rank == 0 and step % SAVE_EVERY == 0:
            done = [star.round, star.world_size, start + 1, step]
            store.save({"step": step, "state": state, "lineage": [*checkpoint["lineage"], done]})
            _tell(step, steps)
        time.sleep(step_s)
    if star.rank == 0:
        store.finish(state, steps)
    star.total(0)  # no rank leaves before the result is written


def _tell(step: int, steps: int) -> None:
    if fifo := os.environ.get("ELASTICJOB_PROGRESS"):
        with contextlib.suppress(OSError):
            descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            os.write(descriptor, json.dumps({"step": step, "total": steps}).encode() + b"\n")
            os.close(descriptor)


def main(folder: str, steps: str, step_s: str) -> int:
    """Return 0 when training has succeeded, 1 when a peer was lost, 3 when fenced, 99 after a violation."""
    env = os.environ
    round_ = int(env["ELASTICJOB_ROUND"])
    star = Star(int(env["RANK"]), int(env["WORLD_SIZE"]), round_)
    store = Store(Path(folder), round_)
    try:
        star.meet(env["MASTER_ADDR"], int(env["MASTER_PORT"]))
        train(star, store, int(steps), float(step_s))
    except (LostPeer, OSError) as error:
        print(f"rank {star.rank} of round {round_}: {error}", file=sys.stderr, flush=True)
        return 1
    except Fenced as error:
        print(f"rank {star.rank}: {error}", file=sys.stderr, flush=True)
        return 3
    except Violation as error:
        store.accuse(f"rank {star.rank} of round {round_}: {error}")
        return 99
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
