"""Jobs as rows; cpu and memory from the status or a metrics server; two versions of a CRD."""

import copy

import pytest
import yaml

from elasticjob_cli.commands.crd import crd_text
from elasticjob_cli.doctor.schema import fields_of, own_fields
from elasticjob_cli.views.columns import table
from elasticjob_cli.views.text import age, duration, size, wrap_lines
from elasticjob_cli.views.usage import Usage, outliers, parse_pod_metrics, usage_levels, usages
from elasticjob_cli.yaml_json import of_server
from tests.unit.cli.recorded import NOW_S, a_job, a_node


def test_a_job_without_a_status_is_pending_with_its_desired_size() -> None:
    job = {"metadata": {"name": "digits"}, "spec": {"replicas": 3}}
    assert table([job], now_s=NOW_S, wide=False, namespaces=False)[1].split() == [
        "digits",
        "Pending",
        "0",
        "3",
        "0",
        "-",
    ]


def test_wide_rows_stay_on_one_line_whatever_the_message() -> None:
    job = a_job(reason="Stalled", message="a\nb\x1b[2J", progress={"percentage": 40})
    head, row = table([job], now_s=NOW_S, wide=True, namespaces=True)
    assert head.split()[:2] == ["NAMESPACE", "NAME"]
    assert row.split()[0] == "team"
    assert "40%" in row
    assert "\x1b" not in row


def test_usage_that_is_not_a_quantity_counts_as_none() -> None:
    containers = [{"usage": {"cpu": "x", "memory": None}}, {"usage": {"cpu": "1500000n", "memory": "2M"}}]
    measured = parse_pod_metrics({"items": [{"metadata": {"name": "j-0"}, "containers": containers}]})
    assert measured["j-0"].cpu_percent == pytest.approx(0.15)
    assert measured["j-0"].memory_bytes == pytest.approx(2e6)


def test_a_metrics_servers_answer_is_summed_over_containers_and_yields_to_the_status() -> None:
    containers = [{"usage": {"cpu": "500m", "memory": "1Mi"}}, {"usage": {"cpu": "1", "memory": "1Mi"}}]
    measured = parse_pod_metrics({"items": [{"metadata": {"name": "digits-0-abcde"}, "containers": containers}]})
    assert measured == {"digits-0-abcde": Usage(150.0, 2 * 2.0**20)}
    nodes = [a_node(0), a_node(1, cpuPercent=7, memoryBytes=9)]
    assert usages(nodes, measured) == {**measured, "digits-1-abcde": Usage(7, 9)}


def test_the_extremes_are_named_only_where_something_was_measured() -> None:
    assert outliers({"a": Usage()}, "node") == []
    cpu, memory = outliers({"a": Usage(10, 100), "b": Usage(90, 50)}, "node")
    assert cpu == "cpu 50% a node, least 10% (a), most 90% (b)"
    assert memory == "memory 75 B a node, most 100 B (a)"


def test_a_level_is_the_share_of_the_largest() -> None:
    assert usage_levels([0.0, 49.0, 51.0, 100.0, None]) == "▁▄▅█·"
    assert usage_levels([0.0, None]) == "▁·"


def test_a_crd_without_a_field_differs_from_that_of_this_version() -> None:
    older = copy.deepcopy(yaml.safe_load(crd_text()))
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["message"]
    assert own_fields() - fields_of(older) == {"status.message"}
    assert "spec.replicas" in own_fields()


@pytest.mark.parametrize(
    ("seconds", "words", "short"),
    [(0.129, "0.13 s", "0s"), (7.14, "7.1 s", "7s"), (303, "5 min 3 s", "5m3s"), (7500, "2 h 5 min", "2h5m")],
)
def test_durations_are_readable(seconds: float, words: str, short: str) -> None:
    assert (duration(seconds), age(seconds)) == (words, short)


def test_sizes_and_wrapped_lines() -> None:
    assert (size(512), size(3 << 30)) == ("512 B", "3.0 GiB")
    assert wrap_lines("one two three four", 10, most=2) == ["one two", "three four"]
    assert wrap_lines("one two three four five", 10, most=2) == ["one two", "three fou…"]


def test_an_object_is_printed_without_managed_fields() -> None:
    job = a_job()
    stored = {**job, "metadata": {**job["metadata"], "managedFields": [{"manager": "kubectl"}]}}
    assert of_server(stored) == job
