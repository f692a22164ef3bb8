"""The history of a job as a picture: time to the right, a row for each group of nodes, a colour for each cause."""

from collections.abc import Iterator, Sequence

from elasticjob_cli.views.job_history import JobHistory, Round
from elasticjob_cli.views.svg import Box, Label, Picture, Shape
from elasticjob_cli.views.text import clock, cut, day, duration
from elasticjob_cli.views.timeline_text import grouped, headline, reason_text

_WIDTH, _LEFT, _RIGHT, _TOP = 1100, 190, 42, 84
_ROW, _BAR = 26, 16
_TICKS = 6
_GREY, _RED = "#7b8794", "#d64545"
_COLOURS = {
    "First": "#3e7cb1",
    "Resumed": "#3e7cb1",
    "WorkerFailed": "#e0803a",
    "NodeLost": "#d64545",
    "NodeLeft": "#b07cc6",
    "NodeJoined": "#4caf7d",
    "ScaledDown": "#4caf7d",
    "RestartRequested": "#8d99ae",
}
_OTHER = "#5b8fb9"
_MEANING = {
    "First": "began or resumed",
    "WorkerFailed": "after a worker failed",
    "NodeLost": "after a node was lost",
    "NodeLeft": "after a node left",
    "NodeJoined": "after a change of size",
    "RestartRequested": "after a requested restart",
}


def timeline_picture(history: JobHistory) -> Picture:
    """Return the picture; its height grows with the groups of nodes."""
    rows = grouped(history)
    height = _TOP + _ROW * len(rows) + 84
    shapes = [Box(0, 0, _WIDTH, height, "#ffffff"), *_head(history), *_axis(history, len(rows))]
    for index, (name, rounds) in enumerate(rows):
        shapes += _row(history, name, rounds, _TOP + _ROW * index)
    return Picture(_WIDTH, height, [*shapes, *_failures(history, len(rows)), *_legend(history, height)], history.name)


def _x(history: JobHistory, time_s: float) -> float:
    span_s = max(history.end_s - history.start_s, 1e-3)
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, (time_s - history.start_s) / span_s))


def _head(history: JobHistory) -> Iterator[Shape]:
    yield Label(20, 30, cut(headline(history), 110), 16)
    until = "now" if history.live else day(history.end_s)
    yield Label(20, 52, f"from {day(history.start_s)} to {until}", 12, _GREY)


def _axis(history: JobHistory, rows: int) -> Iterator[Shape]:
    bottom = _TOP + _ROW * rows
    for tick in range(_TICKS + 1):
        time_s = history.start_s + (history.end_s - history.start_s) * tick / _TICKS
        x = _x(history, time_s)
        yield Box(x, _TOP - 6, 1, bottom - _TOP + 12, "#e4e7eb")
        yield Label(x, bottom + 22, clock(time_s), 11, _GREY, "middle")


def _row(history: JobHistory, name: str, rounds: Sequence[Round], y: float) -> Iterator[Shape]:
    yield Label(_LEFT - 10, y + _BAR - 3, cut(name, 26), 12, anchor="end")
    yield Box(_LEFT, y, _WIDTH - _LEFT - _RIGHT, _BAR, "#f0f2f4")
    for each in rounds:
        yield _bar(history, each, y)


def _bar(history: JobHistory, one: Round, y: float) -> Box:
    begin, end = _x(history, one.start_s), _x(history, history.end_of(one))
    ran = duration(history.end_of(one) - one.start_s)
    title = f"round {one.number}: {one.nodes} nodes, {one.workers} workers, {ran}; {reason_text(one)}"
    # One pixel remains between two rounds, so that even a short gap is visible.
    return Box(begin, y, max(1.0, end - begin - 1), _BAR, _COLOURS.get(one.cause, _OTHER), title)


def _failures(history: JobHistory, rows: int) -> Iterator[Shape]:
    for time_s, text in history.failures():
        x = _x(history, time_s)
        yield Box(x - 1, _TOP - 10, 2, _ROW * rows + 12, _RED, f"{clock(time_s)} {text}")
        yield Label(x, _TOP - 12, "×", 14, _RED, "middle")


def _legend(history: JobHistory, height: int) -> Iterator[Shape]:
    causes = dict.fromkeys(each.cause for each in history.rounds)
    same = {"Resumed": "First", "ScaledDown": "NodeJoined"}
    shown = dict.fromkeys(same.get(cause, cause) for cause in causes if same.get(cause, cause) in _MEANING)
    yield Label(20, height - 20, "× a failure", 12, _GREY)
    x = 110.0
    for cause in shown:
        yield Box(x, height - 30, 12, 12, _COLOURS[cause])
        yield Label(x + 18, height - 20, _MEANING[cause], 12, _GREY)
        x += 18 + 6.5 * len(_MEANING[cause]) + 16
