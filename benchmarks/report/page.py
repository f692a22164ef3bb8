"""docs/benchmarks.md from a report: the machine, a table for each group with the peers and the floor, plots."""

from collections.abc import Mapping, Sequence

from benchmarks.rendezvous import simulation
from benchmarks.rendezvous.fits import power_laws
from benchmarks.report import goals, results
from benchmarks.report.results import FLOOR, OURS, Report, Series

TITLES = {
    "steps": "From an event to the next training step of all ranks",
    "recovery": "Recovery: from an event until the last worker of the next round runs",
    "idle": "An idle agent, its starter with it",
    "rendezvous": "Rendezvous over the number of nodes",
    "planning": "The pure parts, processor time",
    "processes": "Processes",
    "operator": "The operator over the number of jobs",
    "floors": "Floors of this machine",
}
_HEAD = """# Benchmarks

Written by `make bench`; do not edit. Each row's sides took turns in one run on one machine. p50 and p99 are samples
that were measured (p99 of fewer than 100 samples is the worst); *never* is what did not come within the longest wait.
The floor is what the machine itself takes for the same, without any of the product; ×floor is the distance to it.
"""
_TRACED = """Of each scenario's repetition in the middle, µs, by the product's own trace points: what
`elasticjob timeline FOLDER --trace` prints of a run."""
PROFILES: Mapping[str, str] = {
    "Profile of the members": """By layer, of samples every few milliseconds of processor time; what a library of Python
does is its caller's. `records` are the encodings of what is in etcd; `rendezvous` is the rest of what is ours.""",
    "Profile of an agent's start": "What its modules take by themselves, by package; what follows is in the traces.",
    "Profile of an idle agent": "By thread, the scheduler's own count; the sample of all processes falls into it once.",
    "Profile of the operator at rest": "By layer, as the members'.",
}
"""The profiles of the part `profiles`, with a hint for readers; the goals link to these titles."""
_COLUMNS = ("what", "n", "ours p50", "p99", "target", "floor", "×floor", "peer", "n", "p50", "p99")
_CLIENT = "fork + exec of a Python that imports gRPC, to its end"
_PYTHON = "fork + exec of `python -I -S`, to its end"
_ETCD = "etcd: put → watch"
_COPY = "pipes of 1,000,000 lines copied, 2 ranks"
FLOORS: Mapping[str, Mapping[str, int]] = {
    "start 2x2": {_CLIENT: 1, _PYTHON: 1, _ETCD: 3},
    "worker exits 1, 3x1": {_PYTHON: 1, _ETCD: 3},
    "agent SIGTERMed": {_PYTHON: 1, _ETCD: 3},
    "agent SIGKILLed": {_PYTHON: 1, _ETCD: 3},
    "agent joins": {_CLIENT: 1, _PYTHON: 1, _ETCD: 4},
    "64 × `true` started": {"64 × `true` started": 1},
    "tee of 1,000,000 lines, 2 ranks, whole process": {_COPY: 1},
}
"""The necessary parts of a row: an agent (a Python with etcd's client), a worker's start, trips to etcd."""


def page(report: Report, plots: Sequence[str], folder: str, on_a_cluster: Mapping[str, float]) -> str:
    """Return the page; `plots` are files in `folder` beside it, `on_a_cluster` the rows of docs/latencies.md."""
    parts = [_HEAD, _machine(report), "## Targets", "\n".join(goals.table(report.series, on_a_cluster))]
    if report.failed:
        parts += ["## Not measured", "Each of these was to be measured and did not come about:"]
        parts.append("\n".join(f"- `{what}`" for what in report.failed))
    for group, title in TITLES.items():
        own = [each for each in report.series if each.group == group]
        if own:
            parts.append(_section(title, own, report.series))
        parts += [
            f"![{what}]({folder}/{file})"
            for what, file in ((title, f"{group}.svg"), ("Where the time goes", f"{group}-parts.svg"))
            if file in plots
        ]
        if laws := power_laws(own):
            parts.append(f"Cost over the number of {results.counted(own[0])} N, fitted:\n\n" + _code(laws))
    if simulated := simulation.report(report.series):
        parts.append("## More nodes, simulated from the above (docs/scaling.md)")
        parts.append("\n".join(simulated))
    if traces := [text for title, text in report.notes.items() if title not in PROFILES]:
        parts += ["## Where the time goes", _TRACED]
        parts += [_code(text.splitlines()) for text in traces]
    for title, meaning in PROFILES.items():
        if title in report.notes:
            parts += [f"## {title}", meaning, _code(report.notes[title].splitlines())]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _code(lines: Sequence[str]) -> str:
    return "\n".join(["```", *lines, "```"])


def _machine(report: Report) -> str:
    rows = [f"| {name} | {value} |" for name, value in {"began": report.began, **report.machine}.items()]
    return "\n".join(["| | |", "| --- | --- |", *rows])


def _section(title: str, own: Sequence[Series], every: Sequence[Series]) -> str:
    head = [f"## {title}", "", _cells(_COLUMNS), _cells(["---"] * len(_COLUMNS))]
    keys = dict.fromkeys((each.name, each.size) for each in own)
    return "\n".join([*head, *(_row(key, own, every) for key in keys)])


def _row(key: tuple[str, int | None], own: Sequence[Series], every: Sequence[Series]) -> str:
    sides = {each.side: each for each in own if (each.name, each.size) == key}
    ours, floor = sides.pop(OURS, None), sides.pop(FLOOR, None)
    peer = next(iter(sides.values()), None)
    floor_value = floor.p50 if floor is not None else floor_of(key[0], every)
    title = results.titled(next(each for each in (ours, floor, peer) if each is not None))
    unit = "s" if ours is None else ours.unit
    distance = "" if ours is None or not floor_value else f"{ours.p50 / floor_value:.1f}"
    return _cells(
        [
            title,
            *_measured(ours, "n", "p50", "p99"),
            "" if ours is None or ours.target is None else results.format_value(ours.target, ours.unit),
            "" if floor_value is None else results.format_value(floor_value, unit),
            distance,
            "" if peer is None else peer.side,
            *_measured(peer, "n", "p50", "p99"),
        ]
    )


def _measured(series: Series | None, *what: str) -> list[str]:
    if series is None:
        return [""] * len(what)
    known = {
        "n": str(len(series.samples)),
        "p50": results.format_value(series.p50, series.unit),
        "p99": results.format_value(series.p99, series.unit),
    }
    return [known[name] for name in what]


def floor_of(name: str, every: Sequence[Series]) -> float | None:
    """Return the sum of a row's necessary parts, from this run; None without a measurement or such parts."""
    parts = FLOORS.get(name)
    medians = {each.name: each.p50 for each in every if each.group == "floors"}
    if not parts or not parts.keys() <= medians.keys():
        return None
    return sum(times * medians[part] for part, times in parts.items())


def _cells(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
