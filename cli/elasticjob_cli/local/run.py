"""`elasticjob run`: one manifest on this machine, from the file to the summary.

It reads and checks everything, and starts etcd, operator and kubelet. It creates the job and follows it to its end.
Then it stops the rest, and prints the summary. No process outlives it, and it writes only to the run folder.
"""

import asyncio
import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from elasticjob_api import constants
from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.keys import Keys, job_prefix
from elasticjob_cli.errors import CliError, PageNotShown
from elasticjob_cli.exit_codes import CLOSED_OUTPUT
from elasticjob_cli.local import followers, shutdown
from elasticjob_cli.local.console import RunConsole, TextStyle, print_resource
from elasticjob_cli.local.fault_injector import FaultInjector
from elasticjob_cli.local.fault_spec import Fault, parse_fault
from elasticjob_cli.local.host_paths import replaced_host_paths
from elasticjob_cli.local.localize import images_of, localized
from elasticjob_cli.local.manifest import Manifest, read_manifest
from elasticjob_cli.local.memory_dir import MemoryDir, memory_dir
from elasticjob_cli.local.run_dir import RunDir, default_path, make_run_dir
from elasticjob_cli.local.run_events import save_events
from elasticjob_cli.local.run_snapshot import as_yaml, save_periodically, write_resource
from elasticjob_cli.local.run_view import RunView
from elasticjob_cli.local.signals import Interrupted, SignalWaiter, StopRequest, kill_everything
from elasticjob_cli.local.stack import EtcdOptions, LocalStack, build_stack, watch_etcd
from elasticjob_cli.local.summary import persist_lines, rank_table, summary
from elasticjob_cli.views.text import pluralize
from elasticjob_operator.errors import OperatorError
from elasticjob_operator.model import objects
from elasticjob_operator.model.cluster_interface import Object, Resource
from elasticjob_operator.ui import PageServer, PageState

_STYLES: Mapping[int, TextStyle] = {
    ExitCode.OK: TextStyle.GOOD,
    ExitCode.INTERRUPTED: TextStyle.PLAIN,
    ExitCode.LEFT: TextStyle.PLAIN,
}
_NOT_STARTED = {ExitCode.NOT_EXECUTABLE, ExitCode.NOT_FOUND}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command line."""

    manifest: Path
    run_dir: Path | None = None
    inject: Sequence[str] = ()
    output: str | None = None
    """`yaml` or `json`: print the resource to stdout at the end, and everything else to stderr."""
    etcd: EtcdOptions
    ui: int | None = None
    """Port of the web page, 0 for any free one; None: no page."""
    stop_timeout_s: float = shutdown.STOP_S
    """Seconds from the first signal until everything is killed."""


@dataclass(slots=True, kw_only=True)
class _Run:
    """The parts that the steps of one run share."""

    manifest: Manifest
    faults: Sequence[Fault]
    folder: RunDir
    options: Options
    console: RunConsole
    signals: SignalWaiter
    view: RunView
    memory: MemoryDir | None = None
    """None for a job without `spec.keep`."""


def run_job(options: Options) -> int:
    """Run the job; return the exit code, and raise CliError if it could not begin or continue."""
    manifest = read_manifest(options.manifest)
    faults = [parse_fault(text, manifest.job) for text in options.inject]
    default = default_path(
        manifest.job.metadata.name,
        time_utc=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        short_id=secrets.token_hex(2),
    )
    folder = make_run_dir(options.run_dir or default)
    with nullcontext() if manifest.job.spec.keep is None else memory_dir() as memory:
        return asyncio.run(_main(manifest, faults, folder, options, memory))


async def _main(
    manifest: Manifest, faults: Sequence[Fault], folder: RunDir, options: Options, memory: MemoryDir | None
) -> int:
    kill = kill_everything if memory is None else partial(kill_everything, remove=memory.remove)
    with SignalWaiter(kill) as signals:
        stream = sys.stderr if options.output else sys.stdout
        console = RunConsole(stream, environ=os.environ, on_broken=signals.output_closed)
        _log_to(folder, console)
        run = _Run(
            manifest=manifest,
            faults=faults,
            folder=folder,
            options=options,
            console=console,
            signals=signals,
            view=RunView(),
            memory=memory,
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
            local = await run.signals.or_interrupted(
                build_stack(
                    stack,
                    folder=run.folder,
                    cwd=run.manifest.folder,
                    environ=os.environ,
                    options=run.options.etcd,
                    write=run.console.forward,
                    memory=run.memory.path if run.memory is not None else None,
                    observer=page_state,
                )
            )
            if page_state is not None:
                await _show_page(run, stack, page_state)
            code = await _run_pods(run, local)
    except Interrupted as stopped:
        run.console.info(f"{stopped.request.reason}: stopped before the job was created")
        return stopped.request.code
    except ExceptionGroup as group:
        if own := group.subgroup(CliError):
            raise own.exceptions[0] from group
        raise
    return code if _print_summary(run, code) else CLOSED_OUTPUT


async def _show_page(run: _Run, stack: AsyncExitStack, page_state: PageState) -> None:
    """Serve the web page of the run until the run has ended."""
    meta = run.manifest.job.metadata
    try:
        page = await stack.enter_async_context(PageServer(page_state, port=run.options.ui or 0))
    except OperatorError as error:
        raise PageNotShown(str(error)) from error
    run.console.info(f"web page: {page.url}#/{meta.namespace or 'default'}/{meta.name}")


def _print_header(run: _Run) -> None:
    spec, info = run.manifest.job.spec, run.console.info
    elastic = (
        f" (at least {spec.effective_min}, at most {spec.effective_max})"
        if spec.effective_min != spec.effective_max
        else ""
    )
    nodes = f"{pluralize(spec.replicas, 'node')}{elastic}"
    info(f"job {run.manifest.job.metadata.name}: {nodes}; all files are in {run.folder.path}")
    if images := images_of(run.manifest.object):
        info(
            f"image {', '.join(images)} is ignored: commands run on this machine, in {run.manifest.folder}",
            TextStyle.NOTE,
        )
    for name, path in replaced_host_paths(run.manifest.job):
        info(
            f"volume {name}: {path} does not exist on this machine, so its files are in {run.folder.path}/host{path}; "
            f"a later run does not see them, unless you create {path}",
            TextStyle.NOTE,
        )


async def _run_pods(run: _Run, stack: LocalStack) -> int:
    """Create the job and run it until no process of it is left; return the exit code."""
    view, info = run.view, run.console.info
    view.job = await stack.cluster.create(Resource.JOB, localized(run.manifest.object))
    write_resource(run.folder, view.job)
    injector = FaultInjector(
        run.faults,
        view=view,
        cluster=stack.cluster,
        agent_pids=stack.kubelet.pids_of,
        report=lambda text: info(text, TextStyle.BAD),
    )
    async with asyncio.TaskGroup() as group:
        work = [
            watch_etcd(stack.server, run.folder),
            stack.kubelet.run(),
            followers.follow_job(stack.cluster, view),
            followers.follow_pods(stack.cluster, view, info),
            followers.follow_starts(view, info),
            followers.follow_events(stack.cluster, view, info, run.console.recent),
            save_events(stack.cluster, run.folder.events),
            followers.follow_reports(stack.etcd, _keys(stack, view.job), view),
            save_periodically(view, run.folder),
            injector.run(),
            stack.operator.run(),
        ]
        tasks = [group.create_task(each) for each in work]
        request = await _wait_until_ended(run)
        if request is None:
            await shutdown.wait_pods_done(stack, view, run.signals)
        else:
            limit_s = run.options.stop_timeout_s
            info(f"{request.reason}: stopping the job within {limit_s:g} s; a second signal kills everything")
            await shutdown.stop(stack, view, run.signals, request.code, limit_s=limit_s)
        for task in tasks:
            task.cancel()
    return request.code if request else _code(view, injector, run.console)


def _keys(stack: LocalStack, job: Object) -> Keys:
    identity = {"namespace": objects.namespace_of(job), "name": objects.name_of(job), "uid": objects.uid_of(job)}
    return Keys(job_prefix(cluster=stack.cluster_id, **identity))


async def _wait_until_ended(run: _Run) -> StopRequest | None:
    try:
        await run.signals.or_interrupted(run.view.until(lambda: run.view.finished))
    except Interrupted as stopped:
        return stopped.request
    return None


def _code(view: RunView, injector: FaultInjector, console: RunConsole) -> int:
    """Return 0 for success; the code of a command that could not be started; 1 for any other failure."""
    if view.status.get("phase") == constants.Phase.FAILED:
        failure = view.last_failure
        return failure.exit_code if failure and failure.exit_code in _NOT_STARTED else ExitCode.FAILED
    for fault in injector.left:
        console.info(f"inject {fault}: not injected: the job ended before its time", TextStyle.BAD)
    return ExitCode.FAILED if injector.left else ExitCode.OK


def _print_summary(run: _Run, code: int) -> bool:
    """Print the summary; return False if the reader of the output has closed it."""
    info, view = run.console.info, run.view
    if table := rank_table(view):
        run.console.print(table)
    info(summary(view, elapsed_s=run.console.elapsed_s, logs=run.folder.logs), _STYLES.get(code, TextStyle.BAD))
    for line, is_loss in persist_lines(view, now_s=time.time()):
        info(line, TextStyle.BAD if is_loss else TextStyle.PLAIN)
    try:
        write_resource(run.folder, view.job)
    except OSError as error:
        info(
            f"{run.folder.resource} cannot be written ({error.strerror}); it has an earlier state of the job",
            TextStyle.BAD,
        )
    info(f"logs, volumes and job.yaml are in {run.folder.path}", TextStyle.NOTE)
    if not run.options.output:
        return True
    return print_resource(as_yaml(view.job) if run.options.output == "yaml" else json.dumps(view.job, indent=2) + "\n")


def _log_to(folder: RunDir, console: RunConsole) -> None:
    """Write the log of the libraries to the run folder, and errors also to the console."""
    file = logging.FileHandler(folder.log)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[file, _ConsoleHandler(console)], force=True)


class _ConsoleHandler(logging.Handler):
    """A handler that writes errors to the console."""

    def __init__(self, console: RunConsole) -> None:
        super().__init__(logging.ERROR)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        self._console.info(self.format(record), TextStyle.BAD)
