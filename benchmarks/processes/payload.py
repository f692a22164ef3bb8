"""`make bench-payload`: the size of the agent's payload, and the times of a copy and of a start from it.

It runs in containers, as in a pod: the image's own `--install` into a volume on disk and into one in memory. Then the
agent starts (`--version`, which loads all modules of a node) in an image without any file of this project. Docker's own
time is not in the numbers. The goals are 60 MB, and 0.3 s for a copy and a start together.
"""

import json
import re
import statistics
import sys
from collections.abc import Iterator

from testing import containers
from testing.containers import AGENT, AGENT_IMAGE, GLIBC, RESTRICTED, Payload, docker

RUNS = 7
PYTHON = "python:3.11-slim-bookworm"
"""Only for the measurement: its Python starts the agent and reads the clock."""
MEASURE = """
import json, resource, subprocess, sys, time
times = []
for _ in range(int(sys.argv[1])):
    start = time.monotonic()
    subprocess.run([sys.argv[2], "--version"], check=True, stdout=subprocess.DEVNULL)
    times.append(time.monotonic() - start)
print(json.dumps({"times": times, "rss": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}))
"""


def main() -> None:
    """Measure and print."""
    started = containers.provide()
    try:
        for what, value in measure():
            print(f"{what:52} {value}")
    finally:
        if started:
            containers.stop_docker()


def measure() -> Iterator[tuple[str, str]]:
    """Yield each line as soon as it is measured."""
    payload = Payload()
    try:
        payload.install()
        copies = [copied_to_disk() for _ in range(RUNS)]
        yield "size on disk", f"{int(payload.run(GLIBC, 'du', '-sk', '/opt/elasticjob').split()[0]) / 1000:.1f} MB"
        yield "files", payload.run(GLIBC, "sh", "-c", "find /opt/elasticjob -type f | wc -l").strip()
        packed = payload.run(GLIBC, "sh", "-c", "tar -C /opt -c elasticjob | gzip | wc -c")
        yield "packed, as a registry has it", f"{int(packed) / 1e6:.1f} MB"
        on_disk, in_memory = statistics.median(copies), statistics.median(copied_to_memory() for _ in range(RUNS))
        yield "copied to a volume on disk, median", f"{on_disk:.3f} s"
        yield "copied to a volume in memory, median", f"{in_memory:.3f} s"
        found = json.loads(payload.run(PYTHON, "python3", "-c", MEASURE, str(RUNS), AGENT))
        start = statistics.median(found["times"])
        yield "started with everything loaded, median", f"{start:.3f} s"
        yield "the same, first time", f"{found['times'][0]:.3f} s"
        yield "memory then", f"{found['rss'] / 1024:.0f} MiB"
        yield "copied and started, median (goal 0.3 s)", f"{on_disk + start:.3f} s"
    finally:
        payload.remove()


def copied_to_disk() -> float:
    """Return the seconds of one copy into a new volume, as in a pod; over an older copy it takes far longer."""
    new = Payload()
    try:
        return copied(new.install())
    finally:
        new.remove()


def copied_to_memory() -> float:
    """Return the seconds of one copy into a new tmpfs."""
    memory = ("--tmpfs", "/elasticjob-target:mode=1777")
    return copied(docker("run", "--rm", *RESTRICTED, *memory, AGENT_IMAGE, "--install", "/elasticjob-target"))


def copied(output: str) -> float:
    """Return the seconds that `--install` reports."""
    found = re.search(r" in ([\d.]+) s$", output.strip())
    if found is None:
        sys.exit(f"bench-payload: the installer printed {output!r}, without a time")
    return float(found[1])


if __name__ == "__main__":
    main()
