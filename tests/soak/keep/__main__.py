"""`make keep-soak`: jobs that keep their steps, under random faults; whatever is restored is what was published.

    python -m tests.soak.keep [--minutes 20] [--job-minutes 12] [--every 8.0] [--seed N] [--folder FOLDER]

One job after the other, each with other settings, on machines with networks of their own. The exit code is 0 if all
invariants held and no job left memory behind. Else it is 1, and the folder keeps all logs and journals. At the end the
steps that were lost are counted by their causes.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from testing.network.proxy import proxy
from testing.servers.etcds import own_etcd
from tests.soak.keep.episode import Episode, InvariantBroken, Surroundings
from tests.soak.keep.histogram import report
from tests.soak.keep.network import SWITCH_ADDRESS, machines

_MACHINES = 5
_OWN_NETWORK = "ELASTICJOB_SOAK_HAS_OWN_NETWORK"


def main(arguments: list[str]) -> int:
    """Run the soak; return the exit code."""
    parser = argparse.ArgumentParser(prog="keep-soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--job-minutes", type=float, default=12.0, help="minutes of each job")
    parser.add_argument("--every", type=float, default=8.0, help="seconds between two faults, on average")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--folder", type=Path, help="for journals and logs; a new one below the temporary directory")
    options = parser.parse_args(arguments)
    if _OWN_NETWORK not in os.environ:
        command = ["unshare", "--net", "--uts", sys.executable, "-m", "tests.soak.keep", *arguments]
        return subprocess.run(command, env={**os.environ, _OWN_NETWORK: "1"}, check=False).returncode
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    options.folder = options.folder or Path(tempfile.mkdtemp(prefix="keep-soak-"))
    options.folder.mkdir(exist_ok=True)
    if options.folder.stat().st_dev != Path("/").stat().st_dev:
        parser.error(f"no agent follows a link in a mounted volume, as {options.folder}; let --folder name another")
    return _soak(options)


def _soak(options: argparse.Namespace) -> int:
    print(f"keep-soak: {options.minutes:g} minutes, seed {options.seed}, logs in {options.folder}", flush=True)
    rng, until_s = random.Random(options.seed), time.monotonic() + options.minutes * 60
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="ejk-soak-") as memory,
        machines(_MACHINES) as hosts,
        own_etcd(options.folder) as etcd,
        proxy("127.0.0.1", etcd.port, at=SWITCH_ADDRESS) as way,
    ):
        around = Surroundings(folder=options.folder, memory=Path(memory), machines=hosts, etcd=etcd, way=way)
        number = 0
        while (left_s := until_s - time.monotonic()) > 0:
            number += 1
            job = Episode(around, number, random.Random(rng.random()), options.every)
            print(f"{left_s:6.0f} s left: job {number} begins: {job.settings}", flush=True)
            try:
                job.run(min(options.job_minutes, left_s / 60))
            except InvariantBroken as error:
                print(
                    f"keep-soak: FAILED with seed {options.seed}, job {number}: {error}\nsee {job.folder}", flush=True
                )
                return 1
            print(f"{until_s - time.monotonic():6.0f} s left: job {number} ended after {job.faults} faults", flush=True)
    print(report([options.folder]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
