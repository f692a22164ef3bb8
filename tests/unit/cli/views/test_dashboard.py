"""The live view, for terminals of several sizes."""

import pytest

from elasticjob_cli.views.dashboard import WatchState, dashboard
from elasticjob_cli.views.job_history import HistoryEntry, job_history
from elasticjob_cli.views.usage import Usage
from tests.unit.cli.recorded import FAILURE, NOW_S, a_crowd, a_job, a_node, at, two_rounds


def shown(job: dict[str, object], *, width: int = 120, height: int = 40, **fields: object) -> list[str]:
    entries = [HistoryEntry(NOW_S - 40, "WorkerFailed", "rank 3 was killed", warning=True)]
    state = WatchState(job=job, now_s=NOW_S, history=job_history(job, entries, now_s=NOW_S), **fields)  # type: ignore[arg-type]
    return dashboard(state, width=width, height=height, colour=False)


def test_the_first_lines_show_the_state_of_the_job_and_the_last_failure() -> None:
    progress = {"step": 30, "total": 60, "percentage": 50, "metrics": {"loss": "0.1"}, "lastUpdatedTime": at(-5)}
    lines = shown(a_job(progress=progress, lastFailure=FAILURE, reason="Stalled", message="no output"))
    assert lines[0] == "team/digits  Running  round 2  2/2 nodes  4 workers  1 restart  no losses  1 min 40 s"
    assert lines[1] == "███████████████░░░░░░░░░░░░░░░ 50%  step 30/60  loss 0.1  (5s ago)"
    assert lines[2] == "Stalled: no output"
    assert " ".join(lines[3:5]) == (
        "last failure 40s ago: rank 3 in pod digits-1-abcde on n1 was killed by SIGSEGV in round 1: "
        "Fatal Python error: Segmentation fault."
    )


def test_few_nodes_are_a_table_with_cpu_and_memory() -> None:
    job = a_job(nodes=[a_node(0, "RF", rank=0, cpuPercent=150, memoryBytes=3 << 30), a_node(1, "R", rank=1)])
    rows = [line.split() for line in shown(job) if "digits-" in line and "abcde" in line and "failure" not in line]
    assert rows[0] == ["0-1", "digits-0-abcde", "n0", "Running", "150%", "3.0", "GiB", "■✗"]
    assert rows[1] == ["2", "digits-1-abcde", "n1", "Running", "-", "-", "■"]


def test_the_table_shows_warm_and_cold_starts_where_a_node_has_one() -> None:
    warm = a_node(0, "R", rank=0, start={"kind": "Warm", "firstOutputMilliseconds": 46})
    lines = shown(a_job(nodes=[warm, a_node(1, "R", rank=1, start={"kind": "Cold", "reason": "why"}), a_node(2)]))
    [head, *rows] = [line for line in lines if line.startswith("RANKS") or "abcde" in line]
    at = head.index("START")
    assert [row[at : at + 11].strip() for row in rows] == ["warm 46 ms", "cold", ""]
    assert not any("START" in line for line in shown(a_job(nodes=[a_node(0)])))


def of_each(nproc: int, **node: object) -> dict[str, object]:
    """Return the fields of a node with this many workers, of which the last idles."""
    cpu, memory = [100] * (nproc - 1) + [3], [2 << 30] * nproc
    return {"cpuPercent": sum(cpu), "memoryBytes": sum(memory), "rankCpuPercent": cpu, "rankMemoryBytes": memory} | node


def test_below_a_table_of_few_nodes_each_rank_has_its_cpu_and_memory() -> None:
    nodes = [a_node(0, "RRF", rank=1, **of_each(3)), a_node(1, "RR", rank=0, **of_each(2))]
    lines = shown(a_job(nodes=nodes), width=80)
    at = lines.index("RANK    CPU  MEMORY   RANK    CPU  MEMORY   RANK    CPU  MEMORY")
    assert lines[at + 1] == "   0 ■ 100% 2.0 GiB      2 ■ 100% 2.0 GiB      4 ✗    -       -"
    assert lines[at + 2] == "   1 ■   3% 2.0 GiB      3 ■ 100% 2.0 GiB"


def test_where_each_rank_has_no_room_below_the_table_the_one_that_idles_is_named() -> None:
    nodes = [a_node(slot, "R" * 8, rank=slot, **of_each(8)) for slot in range(4)]
    lines = shown(a_job(nodes=nodes), width=80, height=15)
    assert sum("digits-" in line for line in lines) == 4
    assert "cpu 88% a rank, least 3% (rank 7), most 100% (rank 0)" in lines


def test_of_five_hundred_ranks_on_few_nodes_each_has_its_bar() -> None:
    job = a_crowd(63, 8)
    for node in job["status"]["nodes"]:
        node.update(of_each(8))
    lines = shown(job, width=200, height=50)
    (at,) = (number for number, line in enumerate(lines) if line.startswith("cpu "))
    assert lines[at + 1].split()[1] == "███████▁██"
    assert sum(line.count("▁") for line in lines) == 63


def test_usage_of_ranks_is_not_guessed_from_that_of_their_node() -> None:
    job = a_crowd(63, 8)
    for node in job["status"]["nodes"]:
        node.update(cpuPercent=100, memoryBytes=1 << 30)
    assert any(line.startswith("cpu 100% a node, least 100% (digits-0-abcde)") for line in shown(job, height=50))


def test_a_metrics_server_helps_where_the_status_has_no_samples() -> None:
    lines = shown(a_job(), usage={"digits-1-abcde": Usage(20.0, 512.0)})
    assert any("20%" in line and "512 B" in line for line in lines)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 10)])
@pytest.mark.parametrize(("nodes", "nproc"), [(500, 1), (63, 8), (3, 2)])
def test_the_view_fits_into_the_terminal(nodes: int, nproc: int, width: int, height: int) -> None:
    lines = shown(a_crowd(nodes, nproc, missing=2) | {}, width=width, height=height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_five_hundred_ranks_fit_on_eighty_columns_and_waiting_nodes_are_named() -> None:
    lines = shown(a_crowd(500, missing=2), width=80, height=24)
    assert sum(line.count("■") for line in lines) == 498 + 1  # the legend has one
    assert sum("pending: Unschedulable" in line for line in lines) == 2


def of_five_hundred(**size: int) -> list[str]:
    """Return the view of a large job in which one node idles."""
    job = a_crowd(500)
    for node in job["status"]["nodes"]:
        node.update(cpuPercent=100, memoryBytes=1 << 30)
    job["status"]["nodes"][171].update(cpuPercent=2)
    return shown(job, **size)


def test_a_tall_terminal_shows_cpu_and_memory_of_five_hundred_nodes() -> None:
    lines = of_five_hundred(width=200, height=50)
    named = "cpu 100% a rank, least 2% (rank 171 in digits-171-abcde), most 100% (rank 0 in digits-0-abcde)"
    at = lines.index(named)
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["0", "170", "340"]
    assert lines[at + 2].split()[1] == "█▁████████"
    assert lines[at + 4].startswith("memory 1.0 GiB a rank")
    assert sum(line.count("█") for line in lines[at:]) == 499 + 500


def test_a_small_terminal_shows_only_the_extremes_of_five_hundred_nodes() -> None:
    lines = of_five_hundred(width=80, height=24)
    assert "cpu 100% a rank, least 2% (rank 171), most 100% (rank 0)" in lines
    assert "memory 1.0 GiB a rank, most 1.0 GiB (rank 0)" in lines
    assert not any("█" in line for line in lines)


def test_of_many_nodes_that_do_not_run_the_failed_one_is_named_even_on_a_small_terminal() -> None:
    job = a_crowd(500, missing=3)
    for node in job["status"]["nodes"]:
        node.update(cpuPercent=100, memoryBytes=1 << 30)
    job["status"]["nodes"][499].update(state="Failed", reason="OOMKilled")
    lines = shown(job, width=80, height=18)
    assert "digits-499-abcde on n499 failed: OOMKilled" in lines
    assert "and 2 more nodes not running" in lines


def test_on_eighty_columns_the_bar_is_shorter_and_the_progress_whole() -> None:
    metrics = {"loss": "2.13", "tokens/s": "1.2e6"}
    progress = {"step": 12345, "total": 20000, "percentage": 61, "metrics": metrics, "lastUpdatedTime": at(-5)}
    line = shown(a_job(progress=progress), width=80)[1]
    assert line == "██████████░░░░░░ 61%  step 12345/20000  loss 2.13  tokens/s 1.2e6  (5s ago)"


def test_a_long_title_leaves_out_zero_counts() -> None:
    title = shown(a_crowd(500), width=80)[0]
    assert title == "team/digits  Running  round 2  500/500 nodes  4 workers  1 restart  1 min 40 s"


def test_an_even_longer_title_shows_the_time_as_short_as_kubectl() -> None:
    title = shown(a_crowd(500) | {}, width=76)[0]
    assert title == "team/digits  Running  round 2  500/500 nodes  4 workers  1 restart  1m40s"


def test_nodes_without_room_in_the_status_are_mentioned() -> None:
    job = a_crowd(300)
    job["status"]["nodesTruncated"] = True
    assert "(the status has room for 300 nodes only)" in shown(job, height=30)


def test_rounds_and_events_are_shown_newest_first() -> None:
    lines = shown(a_job(rounds=two_rounds()))
    assert "rounds  2: 39 s   1: 50 s" in lines
    assert lines[-1].endswith("WorkerFailed: rank 3 was killed")


def test_colour_is_used_only_on_request() -> None:
    state = WatchState(job=a_job(), now_s=NOW_S, history=job_history(a_job(), [], now_s=NOW_S))
    assert "\x1b[32m" in "".join(dashboard(state, width=80, height=24, colour=True))
    assert "\x1b" not in "".join(dashboard(state, width=80, height=24, colour=False))
