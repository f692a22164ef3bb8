"""`python -m benchmarks.keep.crowd`: what Keep costs a job of 1,000 nodes, in requests, bytes and processor time.

The members are the product's own, on a real etcd, once with two parts of a step at each node and once without Keep.
A decision of the leader's keeper is timed for announcements of so many members, with their decoding.
"""

import argparse
import statistics
import time
from pathlib import Path

from benchmarks.counts.keep_work import round_work
from benchmarks.report import etcds, results
from benchmarks.report.results import OURS, Report, Series
from elasticjob_agent.keep.rules.commit import Announcement, decide_safe_point
from elasticjob_agent.keep.transfer.commit_frames import decode_announcement, encode_announcement
from elasticjob_api.kept_steps import KeptStep, Lineage
from elasticjob_api.rendezvous_state import Member

GROUP = "keep"
_LINEAGE = Lineage(3, "0123abcd")
_NAMES = {"Txn": "etcd's writes a node in a round", "received": "bytes etcd receives a node in a round",
          "sent": "bytes etcd sends a node in a round"}  # fmt: skip
_EVERY_S = 10.0
"""Seconds between two steps that are committed."""


def rounds(nodes: int) -> list[Series]:
    """Return the work of etcd for a round after a failure, with Keep and without, for each node."""
    found = []
    for side, module in (("with Keep", "benchmarks.keep.members"), ("without Keep", "benchmarks.rendezvous.members")):
        used = round_work(module, nodes)
        found += [
            Series(GROUP, f"{title}, {side}", OURS, (used[name] / nodes,), "", size=nodes)
            for name, title in _NAMES.items()
        ]
    return found


def decisions(members: int, repetitions: int) -> list[Series]:
    """Return the processor time of a decision and of decoding, and the share of a processor at a step each ten seconds.

    Each step takes three rounds of announcements: published, copied, committed.
    """
    lines = {Member(slot, f"{slot:08x}"): _line(slot, members) for slot in range(members)}
    hosts = {member: f"host-{member.slot}" for member in lines}
    decoding_s, deciding_s = [], []
    for _ in range(repetitions):
        began_s = time.process_time()
        announcements = {member: decode_announcement(line) for member, line in lines.items()}
        decoded_s = time.process_time()
        point = decide_safe_point(_LINEAGE, announcements, hosts, copies=1)
        decoding_s.append(decoded_s - began_s)
        deciding_s.append(time.process_time() - decoded_s)
        assert point.committed is not None
    share = 3 * (statistics.median(decoding_s) + statistics.median(deciding_s)) / _EVERY_S
    return [
        Series(GROUP, "announcements of all members decoded, processor", OURS, tuple(decoding_s), size=members),
        Series(GROUP, "the leader's keeper decides, processor", OURS, tuple(deciding_s), size=members),
        Series(GROUP, "the leader's keeper, a step each 10 s: processor", OURS, (100 * share,), "%", size=members),
        Series(GROUP, "bytes of an announcement", OURS, (float(len(next(iter(lines.values())))),), "B", size=members),
    ]


def _line(slot: int, members: int) -> bytes:
    """Return the announcement of a member that holds its own part and one copy of the last two steps."""
    steps = [KeptStep(_LINEAGE, number, members) for number in (1200, 1250)]
    held = dict.fromkeys(steps, frozenset({slot, (slot - 1) % members}))
    return encode_announcement(
        Announcement(lineage=_LINEAGE, held=held, committed=steps[0], oldest_uncommitted=steps[1], is_restored=True)
    )


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=15, help="decisions")
    parser.add_argument("--quick", action="store_true", help="64 nodes: does every piece work?")
    parser.add_argument("--json", type=Path, help="keep all samples there")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.repetitions = 64, 3
    report = results.begin(etcd=etcds.version())
    with results.keep(report, options.json):
        measure(options, report)
        print(results.table(report.series))


def measure(options: argparse.Namespace, report: Report) -> None:
    """Measure both; failures are noted in the report."""
    with results.attempt(report, "decisions"):
        report.series += decisions(options.nodes, options.repetitions)
    with results.attempt(report, "rounds"):
        report.series += rounds(options.nodes)


if __name__ == "__main__":
    main()
