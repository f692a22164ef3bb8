"""A job's usage of etcd: its agents keep within the bound of docs/security.md, with any behaviour of workers."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_api.keys import Keys, cli_prefix
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.interface import KeyValue
from testing.processes.fleet import Fleet, fleet
from testing.waiting import aeventually

pytestmark = pytest.mark.etcd

DOCS = Path(__file__).parents[3] / "docs" / "security.md"
NODES, NPROC, ROUNDS = 2, 3, 8
KIB = 1024

WORST = r"""
import json, os, time
astral = "\U0001f4a9"
path = os.environ["TORCHELASTIC_ERROR_FILE"]
with open(path, "w") as file:
    json.dump({"message": astral * 2000}, file, ensure_ascii=False)
if os.environ["LOCAL_RANK"] == "0":
    os.truncate(path, 1 << 30)
with open(os.environ["ELASTICJOB_PROGRESS"], "wb", buffering=0) as progress:
    metrics = {astral * 20 + str(number): [chr(127) * 60] for number in range(25)}
    for step in range(200):
        progress.write(b"x" * 5000 + b"\n")
        progress.write(json.dumps({"step": step, "metrics": metrics}, ensure_ascii=False).encode() + b"\n")
os.write(1, b"\x00" * 100_000)
os.write(2, b"\x01" * 200_000 + b"\n" + b"\x02" * 5_000)
raise SystemExit(int(os.environ["RANK"]) + 1)
"""
"""Too long progress, error files of a gigabyte or of text that grows in JSON, and long stderr."""


def most_keys(nodes: int, ranks: int, left: int = 0) -> int:
    """Return the most keys by the bound in docs/security.md."""
    return 7 + 5 * nodes + 2 * ranks + left


def most_bytes(nodes: int, ranks: int, left: int = 0) -> int:
    """Return the most bytes of keys and values by the same bound."""
    return 64 * KIB + 32 * KIB * nodes + 80 * KIB * ranks + KIB * left


def most_writes(rounds: int, nodes: int, ranks: int) -> int:
    """Return the most writes of a job that joins and runs that many rounds, in which every worker fails."""
    return 8 + 4 * nodes + rounds * (4 + 3 * nodes + ranks)


@pytest.fixture
def job(etcd_server: EmbeddedEtcd, tmp_path: Path) -> Iterator[Fleet]:
    """Run two agents with hostile workers."""
    with fleet(etcd_server.endpoint.targets[0], tmp_path, str(NODES), NPROC, max_restarts=10**6) as made:
        yield made


async def footprint(etcd: EtcdClient, keys: Keys) -> tuple[KeyValue, ...]:
    """Return the job's usage of etcd, after checking that it is within the bound."""
    held = (await etcd.range(keys.everything)).kvs
    told = {kv.key: len(kv.value) for kv in held}
    assert len(held) <= most_keys(NODES, NODES * NPROC), told
    assert sum(len(kv.key) + len(kv.value) for kv in held) <= most_bytes(NODES, NODES * NPROC), told
    return tuple(held)


async def test_hostile_workers_stay_within_the_documented_bound(etcd: EtcdClient, job: Fleet) -> None:
    keys = Keys(cli_prefix(job.run_id))
    before = (await etcd.range(keys.everything)).revision
    for _ in range(NODES):
        job.start_agent(sys.executable, "-S", "-c", WORST)
    rounds: set[int] = set()
    largest: dict[str, int] = {}

    async def has_failed_often() -> bool:
        for kv in await footprint(etcd, keys):
            at = keys.parse(kv.key)
            assert at is not None, kv.key
            largest[at.kind] = max(largest.get(at.kind, 0), len(kv.value))
            rounds.update([at.round] if at.kind == "failure" and at.round else [])
        return len(rounds) >= ROUNDS

    often: bool = await aeventually(has_failed_often, within_s=90, what=f"failures of {ROUNDS} rounds")
    assert often
    written = (await etcd.range(keys.everything)).revision - before
    assert written <= most_writes(max(rounds) + 1, NODES, NODES * NPROC), (
        "progress and log lines are written one by one"
    )
    assert largest["failure"] > 8 * KIB, "nothing was tried"
    assert largest["failure"] <= 40 * KIB, largest
    assert largest["samples"] > 4 * KIB, "the metrics were not told"
    assert largest["report"] + largest["samples"] <= 24 * KIB + 256 * NPROC, largest


def test_the_bound_is_the_one_in_the_documentation() -> None:
    said = re.sub(r"\s+", " ", DOCS.read_text())
    assert f"at most {most_keys(0, 0)} + 5·n + 2·w + g keys" in said
    assert (
        f"{most_writes(1, 0, 0) - most_writes(0, 0, 0)} for the job, 3 for each node and one for each failure" in said
    )
    assert "64 KiB + 32 KiB·n + 80 KiB·w + 1 KiB·g" in said
    assert (most_bytes(0, 0), most_bytes(1, 0), most_bytes(0, 1)) == (64 * KIB, 96 * KIB, 144 * KIB)
