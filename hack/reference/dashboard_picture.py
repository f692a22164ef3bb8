#!/usr/bin/env python3
"""dashboard-picture [--minutes N] FOLDER — draw the dashboard's panels from a real run: docs/pictures/dashboard.png.

It runs real agents, a real etcd, and the operator's own reconciler and metrics on this machine. Three jobs get faults
now and then: workers and agents are killed, pods are deleted, jobs are scaled. A real Prometheus (`prometheus` in PATH:
Debian has it) scrapes the operator. Each panel is the answer to the dashboard's own query. It needs matplotlib, and
`hack/browser` for the picture of the web page.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from elasticjob_cli.local.fault_injector import signal_descendant
from elasticjob_cli.local.localize import localized
from elasticjob_cli.local.run_dir import make_run_dir
from elasticjob_cli.local.stack import EtcdOptions, LocalStack, build_stack
from elasticjob_operator.controller.controller import Controller
from elasticjob_operator.metrics.prometheus import CONTENT_TYPE, PrometheusRecorder
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Resource
from elasticjob_operator.probes import ProbeServer, ProbeSources
from elasticjob_operator.settings import Settings
from elasticjob_operator.ui import PageServer, PageState

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "charts" / "elasticjob" / "dashboards" / "elasticjob.json"
TRAINER = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
for step in range(100000):
    time.sleep(0.2)
    if int(os.environ["RANK"]) == 0:
        loss = round(2.3 / (1 + step / 40), 3)
        with open(os.environ["ELASTICJOB_PROGRESS"], "w") as told:
            told.write(json.dumps({"step": step, "total": 6000, "metrics": {"loss": loss}}) + "\\n")
"""
SCRAPE_S = 2
PAUSE_S = (4.0, 14.0)


def job(name: str) -> dict[str, Any]:
    """Return a job of three nodes with two workers each; two nodes at least, four at most."""
    container = {"name": "trainer", "image": "none", "command": [sys.executable, "-c", TRAINER]}
    return {
        "apiVersion": "elasticjob.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "replicas": 3,
            "minReplicas": 2,
            "maxReplicas": 4,
            "nprocPerNode": 2,
            "maxRestarts": 1000,
            "backoffLimit": 1000,
            "template": {"spec": {"containers": [container]}},
        },
    }


@contextlib.asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[tuple[LocalStack, PrometheusRecorder, PageState]]:
    """Start everything but the jobs."""
    async with contextlib.AsyncExitStack() as stack:
        rig = await build_stack(
            stack,
            folder=make_run_dir(folder / "run"),
            cwd=ROOT,
            environ=os.environ,
            options=EtcdOptions(),
            write=lambda _pod, _lines: None,
        )
        meter, page_state = PrometheusRecorder(), PageState()
        settings = Settings(
            cluster_id=rig.cluster_id, operator_id=rig.cluster_id, etcd_endpoints=rig.server.endpoint.targets
        )
        operator = Controller(
            rig.cluster, rig.etcd, settings, watch=rig.cluster.watch, metrics=meter, observer=page_state
        )
        meter.serve_state(operator.phases, operator.depth)
        yield replace(rig, operator=operator), meter, page_state


async def strike(stack: LocalStack, page_state: PageState, draw: random.Random) -> str:
    """Inject one fault; return its description."""
    entry = draw.choice(sorted(page_state.jobs.values(), key=lambda each: each.key))
    pods = [pod for pod in stack.cluster.objects(Resource.POD) if objects.pod_phase(pod) == "Running"]
    pods = [pod for pod in pods if objects.name_of(pod).startswith(entry.key.name) and not objects.is_terminating(pod)]
    reports = [report for report in entry.view.reports.values() if report.workers]
    kind = draw.choices(("worker", "agent", "delete", "scale"), (5, 2, 2, 2))[0]
    if kind == "worker" and reports:
        signal_descendant(draw.choice(reports).workers[0].pid, signal.SIGKILL)
    elif kind == "agent" and pods:
        for pid in stack.kubelet.pids_of(objects.uid_of(draw.choice(pods))):
            signal_descendant(pid, signal.SIGKILL)
    elif kind == "delete" and pods:
        pod = draw.choice(pods)
        await stack.cluster.delete(Resource.POD, "team", objects.name_of(pod), uid=objects.uid_of(pod))
    else:
        kind = "scale"
        await stack.cluster.patch_spec(Resource.JOB, "team", entry.key.name, {"replicas": draw.choice((2, 3, 4))})
    return f"{kind} of {entry.key.name}"


async def disturb(stack: LocalStack, page_state: PageState, *, until_s: float) -> None:
    """Inject faults until then."""
    draw = random.Random(7)  # noqa: S311 -- a demonstration, the same each time
    while time.monotonic() < until_s:
        await asyncio.sleep(draw.uniform(*PAUSE_S))
        print(await strike(stack, page_state, draw), flush=True)


@contextlib.contextmanager
def prometheus(folder: Path, target: str, port: int) -> Any:
    """Start a Prometheus that scrapes `target`, on `port`."""
    config = folder / "prometheus.yml"
    scrape = {"job_name": "elasticjob", "scrape_interval": f"{SCRAPE_S}s", "static_configs": [{"targets": [target]}]}
    config.write_text(json.dumps({"scrape_configs": [scrape]}))
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.terminate()


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(port: int, expression: str, begin_s: float, end_s: float) -> list[dict[str, Any]]:
    """Return Prometheus's answer to a query of the dashboard."""
    for name, value in {"$__rate_interval": "60s", "$__range": f"{int(end_s - begin_s)}s", "$namespace": ".*"}.items():
        expression = expression.replace(name, value)
    words = urllib.parse.urlencode({"query": expression, "start": begin_s, "end": end_s, "step": SCRAPE_S})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query_range?{words}", timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def draw_panels(port: int, begin_s: float, end_s: float, path: Path) -> None:
    """Draw all panels in the dashboard's layout."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 -- not of the project's environment; needed only here

    panels = json.loads(DASHBOARD.read_text())["panels"]
    rows = sorted({panel["gridPos"]["y"] for panel in panels})
    figure = plt.figure(figsize=(15, 3.1 * len(rows)), layout="constrained")
    grid = figure.add_gridspec(len(rows), 24, height_ratios=[0.45, *[1] * (len(rows) - 1)])
    for panel in panels:
        at = panel["gridPos"]
        axes = figure.add_subplot(grid[rows.index(at["y"]), at["x"] : at["x"] + at["w"]])
        axes.set_title(panel["title"], loc="left", fontsize=11)
        (draw_stat if panel["type"] == "stat" else draw_lines)(axes, panel, port, begin_s, end_s)
    figure.savefig(path, dpi=80)


def draw_stat(axes: Any, panel: dict[str, Any], port: int, begin_s: float, end_s: float) -> None:
    """Draw the last value, large."""
    axes.axis("off")
    unit = panel["fieldConfig"]["defaults"]["unit"]
    values = []
    for target in panel["targets"]:
        for series in ask(port, target["expr"], begin_s, end_s):
            value = float(series["values"][-1][1])
            shown = {"percentunit": f"{value:.1%}", "s": f"{value * 1000:.0f} ms"}.get(unit, f"{value:.0f}")
            values.append(shown if len(panel["targets"]) == 1 else f"{shown} {target['legendFormat']}")
    axes.text(0.02, 0.5, "\n".join(values), fontsize=22 if len(values) == 1 else 14, va="center")


def draw_lines(axes: Any, panel: dict[str, Any], port: int, begin_s: float, end_s: float) -> None:
    """Draw each series, stacked if the panel requires it."""
    names, lines, times = [], [], [begin_s + i * SCRAPE_S for i in range(int((end_s - begin_s) / SCRAPE_S) + 1)]
    for target in panel["targets"]:
        for series in ask(port, target["expr"], begin_s, end_s):
            known = {round(float(at)): float(value) for at, value in series["values"]}
            lines.append([known.get(round(at), float("nan")) for at in times])
            names.append(named(target["legendFormat"], series["metric"]))
    minutes = [(at - begin_s) / 60 for at in times]
    if "stacking" in panel["fieldConfig"]["defaults"]["custom"]:
        whole = [[0.0 if value != value else value for value in line] for line in lines]  # noqa: PLR0124 -- not a number
        axes.stackplot(minutes, *whole, labels=names, alpha=0.8, colors=colours(panel, names))
    else:
        for name, line in zip(names, lines, strict=True):
            axes.plot(minutes, line, label=name, linewidth=1.3)
    axes.set_ylim(bottom=0)
    axes.set_ylabel({"s": "seconds", "percentunit": "share"}.get(panel["fieldConfig"]["defaults"]["unit"], ""))
    axes.set_xlabel("minutes", fontsize=8)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=7, loc="upper left")


def colours(panel: dict[str, Any], names: list[str]) -> list[str] | None:
    """Return the colours that the panel gives its series, if any."""
    fixed = {
        override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"].removeprefix("light-")
        for override in panel["fieldConfig"]["overrides"]
    }
    hues = {"yellow": "gold"}  # matplotlib's set has no yellow
    return [hues.get(hue := fixed.get(name, "gray"), f"tab:{hue}") for name in names] if fixed else None


def named(legend: str, labels: dict[str, str]) -> str:
    """Return a legend such as `p50 {{cause}}` with these labels."""
    for name, value in labels.items():
        legend = legend.replace("{{" + name + "}}", value)
    return legend


async def run(folder: Path, minutes: float) -> None:
    """Run the jobs and the faults, and draw the pictures."""
    web, prom = free_port(), free_port()
    async with stage(folder) as (stack, meter, page_state):
        sources = ProbeSources(
            running=lambda: True,
            ready=lambda: True,
            leads=lambda: True,
            ages=meter.ages,
            metrics=meter.text,
            metrics_type=CONTENT_TYPE,
        )
        async with (
            ProbeServer(f"http://127.0.0.1:{web}/healthz", sources),
            PageServer(page_state) as page,
            asyncio.TaskGroup() as group,
        ):
            tasks = [group.create_task(stack.operator.run()), group.create_task(stack.kubelet.run())]
            for name in ("vision", "language", "speech"):
                await stack.cluster.create(Resource.JOB, localized(job(name)))
            with prometheus(folder, f"127.0.0.1:{web}", prom):
                begin_s = time.time()
                await disturb(stack, page_state, until_s=time.monotonic() + minutes * 60)
                await asyncio.sleep(2 * SCRAPE_S)
                (folder / "metrics.txt").write_bytes(meter.text())
                await asyncio.to_thread(draw_panels, prom, begin_s + 10, time.time(), folder / "dashboard.png")
                await asyncio.to_thread(photograph, f"{page.url}#/team/vision", folder / "page-real.png")
            await stack.kubelet.stop(1.0)
            for task in tasks:
                task.cancel()


def photograph(url: str, path: Path) -> None:
    """Photograph the web page of a job."""
    found = subprocess.run((ROOT / "hack" / "browser",), stdout=subprocess.PIPE, text=True, check=True).stdout
    tools = dict(line.split("=", 1) for line in found.split())
    code = (
        "import sys; from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as p:\n"
        "    b = p.chromium.launch(executable_path=sys.argv[1], args=['--no-sandbox'])\n"
        "    page = b.new_page(viewport={'width': 1280, 'height': 900}); page.goto(sys.argv[2])\n"
        "    page.wait_for_selector('#map .cell'); page.screenshot(path=sys.argv[3], full_page=True); b.close()\n"
    )
    subprocess.run([tools["PYTHON"], "-c", code, tools["CHROMIUM"], url, str(path)], check=True)


def main() -> None:
    """Parse, run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("folder", type=Path, help="an empty folder for the pictures and the files of the run")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(options.folder.resolve(), options.minutes))


if __name__ == "__main__":
    main()
