"""`elasticjob run`: one manifest on this machine, from the file to the final table. This page is the column of it.

Read and check everything, then start etcd, operator and kubelet, create the job, follow it to its end, stop what
is left, say how it was. Nothing outlives it and nothing is written outside the run folder, however it ends.
"""

import asyncio
import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from elasticjob_api import constants
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.keys import Keys, job_prefix
from elasticjob_cli.errors import CliError, PageNotShown
from elasticjob_cli.local import followers, shutdown
from elasticjob_cli.local.console import RunConsole, TextStyle, print_resource
from elasticjob_cli.local.fault_injector import FaultInjector
from elasticjob_cli.local.fault_spec import Fault, parse_fault
from elasticjob_cli.local.localize import images_of, localized
from elasticjob_cli.local.manifest import Manifest, read_manifest
from elasticjob_cli.local.run_dir import RunDir, default_path, make_run_dir
from elasticjob_cli.local.run_snapshot import as_yaml, save_periodically, write_resource
from elasticjob_cli.local.run_view import RunView
from elasticjob_cli.local.signals import CLOSED_OUTPUT, Interrupted, SignalWaiter, StopRequest, kill_everything
from elasticjob_cli.local.stack import EtcdOptions, LocalStack, build_stack, watch_etcd
from elasticjob_cli.local.summary import rank_table, summary
from elasticjob_cli.views.text import pluralize
from elasticjob_operator.errors import OperatorError
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.ui import PageServer, PageState

_TONES: Mapping[int, TextStyle] = {
    ExitCode.OK: TextStyle.GOOD,
    ExitCode.INTERRUPTED: TextStyle.PLAIN,
    ExitCode.LEFT: TextStyle.PLAIN,
}
_NOT_STARTED = {ExitCode.NOT_EXECUTABLE, ExitCode.NOT_FOUND}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line."""

    manifest: Path
    run_dir: Path | None = None
    inject: Sequence[str] = ()
    output: str | None = None
    """`yaml` or `json`: the resource in the end on stdout, everything else on stderr."""
    etcd: EtcdOptions
    ui: int | None = None
    """Port of the web page, 0 for any free one; None: no page."""


@dataclass(slots=True, kw_only=True)
class _Run:
    """What the steps of one run share."""

    manifest: Manifest
    faults: Sequence[Fault]
    folder: RunDir
    options: Options
    voice: RunConsole
    interrupts: SignalWaiter
    view: RunView


def run_job(options: Options) -> int:
    """Run it; returns the exit code, raises CliError when it could not begin or go on."""
    manifest = read_manifest(options.manifest)
    faults = [parse_fault(text, manifest.job) for text in options.inject]
    default = default_path(
        manifest.job.metadata.name,
        time_utc=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        short_id=secrets.token_hex(2),
    )
    folder = make_run_dir(options.run_dir or default)
    return asyncio.run(_main(manifest, faults, folder, options))


async def _main(manifest: Manifest, faults: Sequence[Fault], folder: RunDir, options: Options) -> int:
    with SignalWaiter(kill_everything) as signals:
        stream = sys.stderr if options.output else sys.stdout
        console = RunConsole(stream, environ=os.environ, on_broken=signals.output_closed)
        _log_to(folder, console)
        run = _Run(
            manifest=manifest,
            faults=faults,
            folder=folder,
            options=options,
            voice=console,
            interrupts=signals,
            view=RunView(),
        )
        try:
            return await _run(run)
        finally:
            console.close()


async def _run(run: _Run) -> int:
    _print_header(run)
    try:
        async with AsyncExitStack() as stack:
            page_state = PageState() if run.options.ui is not None else None
            rig = await run.interrupts.or_interrupted(
                build_stack(
                    stack,
                    folder=run.folder,
                    cwd=run.manifest.folder,
                    environ=os.environ,
                    options=run.options.etcd,
                    write=run.voice.forward,
                    observer=page_state,
                )
            )
            if page_state is not None:
                await _show_page(run, stack, page_state)
            code = await _run_pods(run, rig)
    except Interrupted as stopped:
        run.voice.info(f"{stopped.request.reason}: stopped before the job began")
        return stopped.request.code
    except ExceptionGroup as group:
        if own := group.subgroup(CliError):
            raise own.exceptions[0] from group
        raise
    return code if _print_summary(run, code) else CLOSED_OUTPUT


async def _show_page(run: _Run, stack: AsyncExitStack, page_state: PageState) -> None:
    """The web page of the run, until it has ended."""
    meta = run.manifest.job.metadata
    try:
        page = await stack.enter_async_context(PageServer(page_state, port=run.options.ui or 0))
    except OperatorError as error:
        raise PageNotShown(str(error)) from error
    run.voice.info(f"look at it: {page.url}#/{meta.namespace or 'default'}/{meta.name}")


def _print_header(run: _Run) -> None:
    spec, say = run.manifest.job.spec, run.voice.info
    elastic = (
        f" (at least {spec.effective_min}, at most {spec.effective_max})"
        if spec.effective_min != spec.effective_max
        else ""
    )
    nodes = f"{pluralize(spec.replicas, 'node')}{elastic}"
    say(f"job {run.manifest.job.metadata.name}: {nodes}; everything is kept in {run.folder.path}")
    if images := images_of(run.manifest.object):
        say(
            f"image {', '.join(images)} is ignored: commands run on this machine, in {run.manifest.folder}",
            TextStyle.NOTE,
        )


async def _run_pods(run: _Run, stack: LocalStack) -> int:
    """The job from its creation until nothing of it runs; the exit code."""
    view, say = run.view, run.voice.info
    view.job = await stack.cluster.create(Resource.JOB, localized(run.manifest.object))
    write_resource(run.folder, view.job)
    injector = FaultInjector(
        run.faults,
        view=view,
        cluster=stack.cluster,
        agent_pids=stack.kubelet.pids_of,
        report=lambda text: say(text, TextStyle.BAD),
    )
    async with asyncio.TaskGroup() as group:
        work = [
            watch_etcd(stack.server, run.folder),
            stack.kubelet.run(),
            followers.follow_job(stack.cluster, view),
            followers.follow_pods(stack.cluster, view, say),
            followers.follow_events(stack.cluster, say, run.voice.recent),
            followers.follow_reports(stack.etcd, _keys(stack, view.job), view),
            save_periodically(view, run.folder),
            injector.run(),
            stack.operator.run(),
        ]
        tasks = [group.create_task(each) for each in work]
        ask = await _wait_until_ended(run)
        if ask is None:
            await shutdown.wait_pods_done(stack, view, run.interrupts)
        else:
            say(f"{ask.reason}: stopping the job within {shutdown.STOP_S:g} s; once more kills everything at once")
            await shutdown.stop(stack, view, ask.code)
        for task in tasks:
            task.cancel()
    return ask.code if ask else _code(view, injector, run.voice)


def _keys(stack: LocalStack, job: Object) -> Keys:
    identity = {"namespace": objects.namespace_of(job), "name": objects.name_of(job), "uid": objects.uid_of(job)}
    return Keys(job_prefix(cluster=stack.cluster_id, **identity))


async def _wait_until_ended(run: _Run) -> StopRequest | None:
    try:
        await run.interrupts.or_interrupted(run.view.until(lambda: run.view.finished))
    except Interrupted as stopped:
        return stopped.request
    return None


def _code(view: RunView, injector: FaultInjector, console: RunConsole) -> int:
    """0 for success; a command that could not be started keeps its code, every other failure is 1."""
    if view.status.get("phase") == constants.Phase.FAILED:
        code = (view.status.get("lastFailure") or {}).get("exitCode", ExitCode.FAILED)
        return int(code) if code in _NOT_STARTED else ExitCode.FAILED
    for fault in injector.left:
        console.info(f"inject {fault}: never struck: the job had ended before its moment came", TextStyle.BAD)
    return ExitCode.FAILED if injector.left else ExitCode.OK


def _print_summary(run: _Run, code: int) -> bool:
    """Say how it was; False if nobody reads it."""
    say, view = run.voice.info, run.view
    if table := rank_table(view):
        run.voice.print(table)
    say(summary(view, elapsed_s=run.voice.elapsed_s, logs=run.folder.logs), _TONES.get(code, TextStyle.BAD))
    try:
        write_resource(run.folder, view.job)
    except OSError as error:
        say(f"{run.folder.resource} cannot be written ({error.strerror}): it is as the job was created", TextStyle.BAD)
    say(f"logs, volumes and the resource are in {run.folder.path}", TextStyle.NOTE)
    if not run.options.output:
        return True
    return print_resource(as_yaml(view.job) if run.options.output == "yaml" else json.dumps(view.job, indent=2) + "\n")


def _log_to(folder: RunDir, console: RunConsole) -> None:
    """The libraries' log goes into the run folder; what is an error is said as well."""
    file = logging.FileHandler(folder.log)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[file, _ConsoleHandler(console)], force=True)


class _ConsoleHandler(logging.Handler):
    """Errors in the voice of the run."""

    def __init__(self, console: RunConsole) -> None:
        super().__init__(logging.ERROR)
        self._voice = console

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        self._voice.info(self.format(record), TextStyle.BAD)
