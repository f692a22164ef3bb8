"""The timeline as text and as a picture."""

import xml.etree.ElementTree as ET

import pytest

from elasticjob_cli.views.job_history import HistoryEntry, JobHistory, job_history
from elasticjob_cli.views.svg import as_svg
from elasticjob_cli.views.timeline_svg import timeline_picture
from elasticjob_cli.views.timeline_text import slots_text, timeline
from tests.unit.cli.recorded import NOW_S, a_job, a_round, two_rounds


def history(**status: object) -> JobHistory:
    failed = HistoryEntry(NOW_S - 40, "WorkerFailed", "rank 3 <was> killed & gone", warning=True)
    return job_history(a_job(**{"rounds": two_rounds(), **status}), [failed], now_s=NOW_S)


def test_each_round_has_a_line_with_gap_and_reason() -> None:
    lines = timeline(history(), width=120)
    assert lines[0] == "digits Running: round 2, 1 restart, no node losses, 1 min 40 s, 89.9 % of it in rounds"
    (second,) = [line for line in lines if line.startswith("2 ")]
    assert second.split()[2:5] == ["39", "s", "..."]
    assert second.endswith("0.10 s  3      4        rank 3 was killed by SIGSEGV")


def test_on_eighty_columns_the_headline_is_whole() -> None:
    assert " ".join(timeline(history(), width=80)[:2]).endswith("89.9 % of it in rounds")


def test_on_eighty_columns_a_long_reason_is_complete_below_its_round() -> None:
    reason = "rank 3 in pod digits-1-abcde on node-17.example exited with code 1: ValueError: bad batch in shard 7"
    lines = timeline(
        history(rounds=[a_round(1, -90, -40, "0-1"), a_round(2, -39, None, "0-1", message=reason)]), width=80
    )
    (at,) = (number for number, line in enumerate(lines) if line.startswith("2 "))
    assert " ".join(line.strip() for line in lines[at + 1 : at + 3]) == reason
    assert lines[at + 1].startswith("       rank 3")


def test_nodes_with_the_same_rounds_share_a_row() -> None:
    rows = {line.split()[0]: line.split()[1] for line in timeline(history(), width=80) if line.startswith("digits-")}
    assert sorted(rows) == ["digits-2", "digits-[0-1]"]
    assert rows["digits-2"].count("█") < rows["digits-[0-1]"].count("█")


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = [a_round(1, -90, None, "0-1", message="a very long reason " * 20)]
    assert max(map(len, timeline(history(rounds=long), width=width))) <= width


def test_failures_are_marked_below_the_moment() -> None:
    lines = timeline(history(), width=112)
    (marks,) = [line for line in lines if line.startswith("failures")]
    chart = next(line for line in lines if line.startswith("digits-["))
    begin = chart.index("·")
    assert 0.55 < (marks.index("×") - begin) / (len(chart) - begin) < 0.65


def test_a_job_that_never_ran_has_no_rounds() -> None:
    assert timeline(job_history(a_job(), [], now_s=NOW_S), width=80)[-1] == "no round has run yet"


def test_many_groups_of_nodes_are_cut() -> None:
    rounds = [a_round(i, -90 + i, -89 + i, str(i)) for i in range(60)]
    rows = [line for line in timeline(history(rounds=rounds), width=80) if "·" in line]
    assert len(rows) == 24
    assert "37 more groups" in rows[-1]


def test_slots_are_short() -> None:
    assert (slots_text([3]), slots_text([0, 1, 2, 5])) == ("3", "[0-2,5]")


def test_the_picture_is_svg_with_a_bar_and_a_title_for_each_round_of_each_group() -> None:
    root = ET.fromstring(as_svg(timeline_picture(history())))
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sum(title.startswith("round 2: 3 nodes") for title in titles) == 2
    assert any("WorkerFailed: rank 3 was killed by SIGSEGV" in title for title in titles)
