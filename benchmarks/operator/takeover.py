"""The takeover time of the operator's standby: the leader is killed, or stopped, again and again, at random times.

Two real operators use a Lease on a real API server. The end is `/readyz` of the other reporting that it leads.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.operator.stack import OperatorProcess, stage, wait_until

LIMIT_S = 6.0
"""The longest takeover allowed after a kill."""
MEDIAN_S = 5.0
ELECTION = ("--leader-elect", "--lease-namespace", "default")
_PAUSE_S = 0.02


def main() -> None:
    """Parse, measure, print; exit 1 above the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="takeovers of each kind")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="elasticjob-bench-") as name, stage(Path(name)) as (server, etcd, _):

        def start() -> OperatorProcess:
            return OperatorProcess(server, etcd.endpoint.targets[0], Path(name), options=ELECTION)

        leader, standby = start(), start()
        try:
            wait_until("a leader", lambda: "leader" in {leader.role(), standby.role()}, within_s=60.0)
            if standby.role() == "leader":
                leader, standby = standby, leader
            taken: dict[str, list[float]] = {"killed": [], "stopped": []}
            for _ in range(options.times):
                for how, seconds in taken.items():
                    wait_until("a standby", lambda: standby.role() == "standby", within_s=60.0)  # noqa: B023 -- at once
                    time.sleep(2.0 + draw.random())
                    seconds.append(end(leader, standby, how=how))
                    leader, standby = standby, start()
        finally:
            leader.kill()
            standby.kill()
    for how, seconds in taken.items():
        print(json.dumps({"leader": how, "times": len(seconds), "p50_s": median(seconds), "max_s": most(seconds)}))
    if median(taken["killed"]) > MEDIAN_S or most(taken["killed"]) > LIMIT_S:
        raise SystemExit(f"a takeover takes longer than {MEDIAN_S:g} s in the median, or than {LIMIT_S:g} s at most")


def end(leader: OperatorProcess, standby: OperatorProcess, *, how: str) -> float:
    """End the leader; return the seconds until the other leads, including the end itself."""
    began_s = time.monotonic()
    (leader.kill if how == "killed" else leader.stop)()
    wait_until("another leader", lambda: standby.role() == "leader", within_s=60.0, pause_s=_PAUSE_S)
    return time.monotonic() - began_s


def median(seconds: list[float]) -> float:
    """Return the rounded median."""
    return round(statistics.median(seconds), 2)


def most(seconds: list[float]) -> float:
    """Return the rounded maximum."""
    return round(max(seconds), 2)


if __name__ == "__main__":
    main()
