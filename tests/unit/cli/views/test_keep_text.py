"""Steps that are kept in memory: the sentences of `describe`, and the table of `elasticjob keep`."""

from typing import Any

import pytest

from elasticjob_cli.views.job_text import describe
from elasticjob_cli.views.keep_text import keep_sentences, keep_table
from tests.unit.cli.recorded import NOW_S, a_job, a_node, at

SPEC = {"keep": {"sizeLimit": "8Gi"}}


def sentences(**status: Any) -> list[str]:
    return list(keep_sentences(SPEC, status, now_s=NOW_S))


def on_disk(**status: Any) -> list[str]:
    """Return the sentences about a job that persists steps, but for the first."""
    return list(keep_sentences({"keep": {"sizeLimit": "8Gi", "persistTo": "/ckpt\nx"}}, status, now_s=NOW_S))[1:]


def kept(**fields: Any) -> dict[str, Any]:
    """Return the kept steps of a status as the API server has them."""
    return {"keep": {"bytes": 3 << 30, "skipped": 0, "degraded": "", **fields}}


def test_a_job_that_keeps_no_steps_has_no_sentence_about_them() -> None:
    assert list(keep_sentences({}, kept(step=3, round=1), now_s=NOW_S)) == []
    assert keep_table({"nodes": [a_node(0)]}) == []


@pytest.mark.parametrize(
    ("copies", "where"),
    [
        (None, "on its own node only"),
        (0, "on its own node only"),
        (1, "on its own node and on 1 other node"),
        (2, "on its own node and on 2 other nodes"),
    ],
)
def test_the_committed_step_is_named_with_the_nodes_that_hold_it(copies: int | None, where: str) -> None:
    found = sentences(**kept(step=120, round=3, copies=copies))
    assert found == [f"Step 120 of round 3 is committed: {where}; 3.0 GiB are held in memory."]


def test_before_the_first_commit_there_is_only_what_is_held() -> None:
    assert sentences() == ["No step is committed yet; 0 B are held in memory."]
    assert sentences(**kept()) == ["No step is committed yet; 3.0 GiB are held in memory."]


def test_the_age_of_the_committed_step_and_the_time_of_its_copies_are_named() -> None:
    aged = kept(step=120, round=3, copies=1, committedTime=at(-65))
    assert sentences(**aged)[0].startswith("Step 120 of round 3 is committed (1m5s ago): on its own node")
    aged["keep"]["copyMilliseconds"] = 1300
    assert " (1m5s ago, 1.3 s after its first part): " in sentences(**aged)[0]
    ahead = kept(step=120, round=3, committedTime=at(9), copyMilliseconds=0)
    assert " (0s ago, 0.00 s after its first part): " in sentences(**ahead)[0]


def test_the_persisted_step_is_named_with_its_directory() -> None:
    assert on_disk() == ["No step is in /ckpt x yet."]
    assert on_disk(**kept(persistedStep=0)) == ["Step 0 is whole in /ckpt x."]
    assert on_disk(**kept(persistedStep=100, persistedTime=at(-240))) == ["Step 100 is whole in /ckpt x (4m ago)."]


def test_a_suspended_job_has_steps_on_disk_only() -> None:
    suspended = {"phase": "Suspended", "keep": {"persistedStep": 100}}
    assert sentences(**suspended) == ["The job is suspended, so none of its steps is in memory."]
    assert on_disk(**suspended) == ["Step 100 is whole in /ckpt x."]
    suspended["keep"] = {"persistedStep": 100, "persistError": "step 120 was not written"}
    assert on_disk(**suspended) == ["Step 100 is whole in /ckpt x.", "The reason: step 120 was not written."]
    suspended["keep"] = {"persistError": "step 120 was not written"}
    assert on_disk(**suspended) == ["No step was written to /ckpt x.", "The reason: step 120 was not written."]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_job_holds_nothing_and_has_its_last_step_on_disk_or_not(phase: str) -> None:
    assert sentences(phase=phase) == ["The job has ended, so none of its steps is in memory."]
    assert sentences(phase=phase, **kept(step=120, round=3, copies=1)) == [
        "The job has ended, so none of its steps is in memory; step 120 of round 3 was committed last."
    ]
    assert on_disk(phase=phase, **kept(step=120, round=3, persistedStep=121)) == ["Step 121 is whole in /ckpt x."]
    assert on_disk(phase=phase, **kept(step=120, round=3, persistedStep=100, persistError="no room")) == [
        "Step 100 is whole in /ckpt x.",
        "Step 120 of round 3 was committed in memory, and is not there.",
        "The reason: no room.",
    ]
    assert on_disk(phase=phase) == ["No step was written to /ckpt x."]


def test_skipped_steps_and_the_reason_of_missing_copies_are_named() -> None:
    conditions = [
        {"type": "Running", "status": "True", "message": "no"},
        {"type": "KeepDegraded", "status": "True", "message": "j-1: no answer of a peer"},
    ]
    assert sentences(**kept(skipped=1))[1:] == ["1 part was dropped before copies were made, for newer ones."]
    assert sentences(**kept(skipped=2), conditions=conditions)[1:] == [
        "2 parts were dropped before copies were made, for newer ones.",
        "Steps are kept less safely than requested: j-1: no answer of a peer.",
    ]


def test_a_condition_that_is_not_true_is_no_reason() -> None:
    conditions = [{"type": "KeepDegraded", "status": "False", "message": "was"}]
    assert len(sentences(**kept(), conditions=conditions)) == 1


def test_describe_has_the_sentences() -> None:
    job = a_job(**kept(step=120, round=3, copies=1))
    job["spec"] |= SPEC
    assert sentences(**job["status"])[0] in describe(job, (), now_s=NOW_S, command="elasticjob")


def test_the_table_of_an_ended_job_shows_the_past() -> None:
    ended = {"phase": "Succeeded", "nodes": [a_node(0, **kept(step=120, round=3, copies=1))]}
    assert keep_table(ended) == ["When the job ended:", *keep_table({"nodes": ended["nodes"]})]


def test_the_table_has_a_line_for_each_node_that_reports() -> None:
    nodes = [
        a_node(0, **kept(step=120, round=3, copies=1)),
        a_node(1, **kept(skipped=4, degraded="no answer\nof a peer")),
        a_node(2),
    ]
    assert [line.split(maxsplit=9) for line in keep_table({"nodes": nodes})] == [
        ["NODE", "POD", "ON", "HELD", "STEP", "ROUND", "COPIES", "SKIPPED", "REMARK"],
        ["digits-0", "digits-0-abcde", "n0", "3.0", "GiB", "120", "3", "1", "0"],
        ["digits-1", "digits-1-abcde", "n1", "3.0", "GiB", "-", "-", "-", "4", "no answer of a peer"],
    ]
