"""Records that an earlier version wrote are read as they were meant, and written by this version in the same bytes.

The second half keeps older agents at work: they refuse a record that has a field which they do not know. So a field
that is added must have a default, and is not written while a job does not use it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from elasticjob_api import bootstrap, records, rendezvous_state, runtime_config
from elasticjob_api.job import read_status, status_to_dict
from elasticjob_operator.policy.lifecycle.spec_record import first_record, spec_record
from testing import builders

FOLDER = Path(__file__).parent / "golden"
GOLDEN = json.loads((FOLDER / "v0.1.json").read_text())
"""All records of version 0.1, each at its shortest and with every field. A later version adds a file of its own."""
SINCE_GOLDEN = json.loads((FOLDER / "unreleased.json").read_text())
"""The records that are new since then."""
CLASSES: dict[str, type[Any]] = {
    "Slots": records.SpecRecord,
    "Expected": records.ExpectedSlots,
    "Node": records.NodeRecord,
    "Failure": records.WorkerFailure,
    "Done": records.Completion,
    "Gone": records.Tombstone,
    "Report": records.NodeReport,
    "Samples": records.NodeSamples,
}
"""The records by the names that the file has."""


@pytest.mark.parametrize(
    "golden", GOLDEN["records"] + SINCE_GOLDEN["records"], ids=lambda golden: f"{golden['class']} {golden['data']:.40}"
)
def test_a_record_is_read_and_written_as_by_the_earlier_version(golden: dict[str, str]) -> None:
    cls = CLASSES[golden["class"]]
    assert records.encode(records.decode(cls, golden["data"].encode())).decode() == golden["data"]


@pytest.mark.parametrize("golden", GOLDEN["worlds"])
def test_a_state_is_read_and_written_as_by_the_earlier_version(golden: str) -> None:
    assert rendezvous_state.encode_state(rendezvous_state.decode_state(golden.encode())).decode() == golden


def test_what_stands_beside_the_state_is_read_and_written_as_by_the_earlier_version() -> None:
    membership = rendezvous_state.decode_membership(GOLDEN["membership"].encode())
    assert rendezvous_state.encode_membership(membership).decode() == GOLDEN["membership"]
    for closer in GOLDEN["closers"]:
        assert rendezvous_state.encode_leader(rendezvous_state.decode_leader(closer.encode())).decode() == closer


def test_the_terms_and_what_a_pod_gets_are_read_and_written_as_by_the_earlier_version() -> None:
    for text in GOLDEN["terms"]:
        assert (
            runtime_config.encode_runtime_config(runtime_config.decode_runtime_config(text.encode())).decode() == text
        )
    for text in GOLDEN["briefs"]:
        assert bootstrap.encode_bootstrap(bootstrap.decode_bootstrap(text)) == text


@pytest.mark.parametrize("golden", GOLDEN["statuses"])
def test_a_status_is_read_and_written_as_by_the_earlier_version(golden: dict[str, Any]) -> None:
    ignored: list[str] = []
    assert status_to_dict(read_status(golden, ignored)) == golden
    assert ignored == []


def test_the_record_of_a_plain_job_has_no_field_that_the_earlier_version_does_not_know() -> None:
    job = builders.job(replicas=2)
    plain = spec_record(job, first_record(job, job.status, "op"), builders.names((0, 1)), suspended=False)
    known = {name for each in GOLDEN["records"] if each["class"] == "Slots" for name in json.loads(each["data"])}
    assert set(json.loads(records.encode(plain))) <= known
