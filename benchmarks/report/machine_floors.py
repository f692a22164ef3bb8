"""Floors: the times of this machine itself, beside our numbers. They contain no part of the product.

    fork + exec      a child of a small process, from fork to its observed exit: nothing starts faster
    python -S        the same with the interpreter of our trivial workers
    python, gRPC     the same with the client's library, which each start of an agent needs
    etcd             one put until its watcher has it, over an open channel
    waking           processor time of an event loop that has slept for 2 s, as an idle agent's, and finds nothing to do
    pipe             the lines of the tee copied from two pipes to files and stdout by a loop of reads and writes

Each is one row of the table of floors.
"""

import argparse
import asyncio
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from benchmarks.processes.sides import LINES
from benchmarks.recovery.idle_grpc_floor import PERIOD_S
from benchmarks.report import etcds, results
from benchmarks.report.etcds import Server
from benchmarks.report.results import FLOOR, Series
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.interface import Endpoint, Put, Txn

GROUP = "floors"
_COMMANDS = 64
_AT_ONCE = 1 << 20
_WAKINGS = 10
_WRITES = f"import sys; sys.stdout.writelines(f'line {{i}} of a training run\\n' for i in range({LINES // 2}))"


def fork_and_exec(*command: str) -> float:
    """Return the seconds from the start of `command` to its end."""
    begin_s = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, {})
    os.waitpid(pid, 0)
    return time.perf_counter() - begin_s


def many(count: int, *command: str) -> float:
    """Return the seconds to start so many, one after the other; they end by themselves."""
    begin_s = time.perf_counter()
    pids = [os.posix_spawnp(command[0], command, {}) for _ in range(count)]
    took_s = time.perf_counter() - begin_s
    for pid in pids:
        os.waitpid(pid, 0)
    return took_s


async def _put_to_watch(endpoint: Endpoint, count: int) -> list[float]:
    """Return the seconds from each put to its watcher; the first one, which dials, left out."""
    writer, reader = EtcdClient(endpoint), EtcdClient(endpoint)
    try:
        revision = (await writer.range("floor/")).revision
        watch = reader.watch("floor/", start_revision=revision + 1)
        took_s = []
        for number in range(count + 1):
            begin_s = time.perf_counter()
            put = asyncio.create_task(writer.txn(Txn((), (Put("floor/key", str(number).encode()),))))
            await anext(watch)
            took_s.append(time.perf_counter() - begin_s)
            await put
        await watch.aclose()
        return took_s[1:]
    finally:
        await writer.close()
        await reader.close()


def put_to_watch(server: Server, count: int) -> list[float]:
    """As above."""
    return asyncio.run(_put_to_watch(server.endpoint, count))


async def _wakings(count: int) -> list[float]:
    """Return the seconds of processor time of each of so many sleeps, with the wake-up at its end."""
    took_s = []
    for _ in range(count):
        begin_s = time.thread_time()
        await asyncio.sleep(PERIOD_S)
        took_s.append(time.thread_time() - begin_s)
    return took_s


def pipe_copy() -> float:
    """Return the seconds to copy the output of two ranks to a file each and to /dev/null in place of the console."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb", buffering=0) as console:  # noqa: PTH123 -- unbuffered
        begin_s = time.perf_counter()
        line = (sys.executable, "-I", "-S", "-c", _WRITES)
        ranks = [subprocess.Popen(line, stdout=subprocess.PIPE, bufsize=0) for _ in range(2)]
        _drain([(rank.stdout, Path(folder, str(number))) for number, rank in enumerate(ranks) if rank.stdout], console)
        for rank in ranks:
            rank.wait()
        return time.perf_counter() - begin_s


def _drain(pipes: list[tuple[IO[bytes], Path]], console: IO[bytes]) -> None:
    with selectors.DefaultSelector() as selector:
        for pipe, path in pipes:
            selector.register(pipe, selectors.EVENT_READ, path.open("wb", buffering=0))
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, _AT_ONCE)
                if not data:
                    selector.unregister(key.fileobj)
                    key.data.close()
                    continue
                key.data.write(data)
                console.write(data)


def measure(repetitions: int) -> list[Series]:
    """Measure all floors."""
    python = (sys.executable, "-I", "-S", "-c", "")
    client = (sys.executable, "-I", "-c", "import grpc.aio")
    timed: dict[str, Callable[[], float]] = {
        "fork + exec of `true`, to its end": lambda: fork_and_exec("true"),
        "fork + exec of `python -I -S`, to its end": lambda: fork_and_exec(*python),
        "fork + exec of a Python that imports gRPC, to its end": lambda: fork_and_exec(*client),
        f"{_COMMANDS} × `true` started": lambda: many(_COMMANDS, "true"),
        f"pipes of {LINES:,} lines copied, 2 ranks": pipe_copy,
    }
    samples: dict[str, list[float]] = {name: [] for name in timed}
    with etcds.etcd() as server:
        puts: list[float] = []
        for _ in range(repetitions):
            for name, take in timed.items():
                samples[name].append(take())
            puts += put_to_watch(server, 20)
    samples["etcd: put → watch"] = puts
    samples["an event loop wakes after 2 s: processor time"] = asyncio.run(_wakings(_WAKINGS))
    return [Series(GROUP, name, FLOOR, tuple(values)) for name, values in samples.items()]


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    report = results.begin(etcd=etcds.version())
    with results.keep(report, options.json):
        report.series = measure(options.repetitions)
    print(results.table(report.series))


if __name__ == "__main__":
    main()
