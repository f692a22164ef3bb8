"""Metrics: their destinations, the names of `prof`, and that no handler ever changes a run."""

import time
from collections.abc import Iterator

import pytest

from elasticjob_agent import metrics
from elasticjob_agent.metrics import MetricData, MetricHandler, api


class RecordingHandler(MetricHandler):
    """Records the values that it gets."""

    def __init__(self) -> None:
        self.data: list[MetricData] = []

    def emit(self, metric_data: MetricData) -> None:
        self.data.append(metric_data)

    @property
    def named(self) -> dict[str, float]:
        return {data.name: data.value for data in self.data}


class Broken(MetricHandler):
    """Fails at each value."""

    def emit(self, metric_data: MetricData) -> None:
        raise OSError(f"no way to {metric_data.name}")


@pytest.fixture
def recorded() -> Iterator[RecordingHandler]:
    before = api._default[0]
    handler = RecordingHandler()
    metrics.configure(handler)
    yield handler
    metrics.configure(before)


class Base:
    @metrics.prof
    def works(self) -> int:
        return 3

    @metrics.prof(group="own")
    def fails(self) -> None:
        raise KeyError("x")


class Derived(Base):
    pass


@metrics.prof
def alone() -> None:
    """A function of this module."""


def test_b_004_41_prof_names_the_class_that_defines_the_function(recorded: RecordingHandler) -> None:
    assert Derived().works() == 3
    assert recorded.named == {"Base.works.success": 1, "Base.works.duration.ms": pytest.approx(0, abs=5000)}


def test_b_004_41_prof_of_a_function_names_its_module_without_packages(recorded: RecordingHandler) -> None:
    alone()
    assert set(recorded.named) == {"test_metrics.alone.success", "test_metrics.alone.duration.ms"}


def test_the_name_of_a_metric_can_be_requested() -> None:
    assert (api._get_metric_name(Base.works), api._get_metric_name(alone)) == ("Base.works", "test_metrics.alone")


def test_b_004_41_prof_of_a_failure_puts_its_duration_too_in_its_group(recorded: RecordingHandler) -> None:
    with pytest.raises(KeyError):
        Base().fails()
    assert [(d.group_name, d.name) for d in recorded.data] == [
        ("own", "Base.fails.failure"),
        ("own", "Base.fails.duration.ms"),
    ]


def test_b_004_41_handler_that_raises_changes_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    metrics.configure(Broken(), "broken")
    metrics.put_metric("m", 1, "broken")
    assert "the handler of metric group 'broken' failed on m=1" in caplog.text
    assert "no way to m" in caplog.text


def test_group_with_a_handler_of_its_own_leaves_the_others_to_the_default(recorded: RecordingHandler) -> None:
    own = RecordingHandler()
    metrics.configure(own, "some group")
    metrics.put_metric("a", 1, "some group")
    metrics.getStream("another").add_value("b", 2)
    assert (own.named, recorded.named) == ({"a": 1}, {"b": 2})


def test_value_is_stamped_with_the_time_it_was_put(recorded: RecordingHandler) -> None:
    before = time.time()
    metrics.put_metric("m", 1)
    assert before <= recorded.data[0].timestamp <= time.time()
    assert recorded.data[0].group_name == "torchelastic"


def test_console_handler_prints_group_name_and_value(capsys: pytest.CaptureFixture[str]) -> None:
    metrics.ConsoleMetricHandler().emit(MetricData(1.5, "g", "n", 2))
    assert capsys.readouterr().out == "[1.5][g]: n=2\n"


def test_null_handler_is_the_default() -> None:
    assert isinstance(metrics.getStream("never configured").handler, metrics.NullMetricHandler)


def test_deprecated_forms_warn_and_work(recorded: RecordingHandler) -> None:
    with pytest.warns(FutureWarning, match="publish_metric is deprecated"):
        metrics.publish_metric("g", "m", 4)
    with pytest.warns(FutureWarning, match="profile is deprecated"):
        metrics.profile("g")(lambda: None)()
    assert [d.name for d in recorded.data] == ["m", "<lambda>.success", "<lambda>.duration.ms"]


def test_elapsed_time_is_in_whole_milliseconds() -> None:
    assert 2000 <= metrics.get_elapsed_time_ms(time.time() - 2) < 60000


def test_config_keeps_a_copy_of_its_parameters() -> None:
    params = {"a": "b"}
    config = metrics.MetricsConfig(params)
    params.clear()
    assert (config.params, metrics.MetricsConfig().params) == ({"a": "b"}, {})
