"""Build the zygote of a node: repeat the recorded imports, judge what they did, and leave out what must be left out.

All packages that one build shows to be unfit are left out of the next build, and so are those whose import has brought
them. A package in between is found only once it is imported by itself. So each layer of such packages takes a build.
"""

import asyncio
import logging
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elasticjob_agent.supervisor import Command, Supervisor
from elasticjob_agent.supervisor.preforked import PreforkedWorker
from elasticjob_agent.warm_start import eligibility
from elasticjob_agent.warm_start.build_guard import MemoryLimitError, guarded
from elasticjob_agent.warm_start.changed_variables import UNNOTED, ChangedVariables
from elasticjob_agent.warm_start.eligibility import StartConditions
from elasticjob_agent.warm_start.import_source import ImportSource, copy_of
from elasticjob_agent.warm_start.injection import Write, stream_kinds
from elasticjob_agent.warm_start.limits import Limits
from elasticjob_agent.warm_start.memory_monitor import MemoryMonitor, MemoryShortError
from elasticjob_agent.warm_start.merging import find_change
from elasticjob_agent.warm_start.node_recording import NodeRecording
from elasticjob_agent.warm_start.preload_report import PreloadReport
from elasticjob_agent.warm_start.program import find_program
from elasticjob_agent.warm_start.zygote import Zygote, ZygoteLost
from elasticjob_api.import_profile import ImportProfile, command_digest

log = logging.getLogger(__name__)

_NO_GREETING = (
    "Python did not report itself: it is older than 3.8, or an option or a wrapper keeps it from loading the warm start"
)


_SLOWER, _MORE_S, MAX_WAIT_S = 3.0, 5.0, 60.0
"""Imports that workers wait for: how much longer than elsewhere they may take, how many seconds more, and at most."""


class NotEligibleError(Exception):
    """There is a reason against every zygote of these workers; the text is the reason."""


@dataclass(slots=True)
class ReadyZygote:
    """A zygote that can fork workers, and the workers that it has forked."""

    zygote: Zygote
    conditions: StartConditions
    profile: ImportProfile
    """The imports that it has done."""
    recorded: int
    """Number of modules that the recording had when its imports began."""
    judged: ImportSource
    """The modules, variables and contexts by which its imports were judged."""
    workers: list[PreforkedWorker] = field(default_factory=list)
    watch: asyncio.Task[None] | None = None
    """Ends it when memory is short."""
    fork_failure: str = ""
    """Why its last fork has failed, as a reason for a cold start; empty if it has not."""
    is_measured: bool = False
    """Whether its memory has been reported."""

    compared: tuple[NodeRecording | None, int] = (None, 0)
    """The recording with which it was last compared, and the news that this had."""

    def find_change(self, recording: NodeRecording) -> str:
        """Return a variable or a module that its imports had to know of, by what was recorded since; else nothing."""
        news = (recording, recording.news_count)
        if self.compared == news:  # it takes milliseconds, and a round waits for it
            return ""
        change = find_change(self.judged, recording, recording.begun)
        if not change:
            self.compared = news
        return change

    @property
    def alive_workers(self) -> list[PreforkedWorker]:
        """Return the workers that still wait."""
        return [worker for worker in self.workers if worker.is_alive]


class ZygoteBuilder:
    """Builds one zygote after the other, until one is fit to be forked."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        varying: Collection[str],
        output: Write,
        limits: Limits,
        memory: MemoryMonitor,
    ) -> None:
        """`varying` are the variables that differ by rank or round; `output` gets what the imports print."""
        self._supervisor = supervisor
        self._varying = frozenset(varying)
        self._output = output
        self._limits = limits
        self._memory = memory
        self._denied = set(eligibility.DENIED_PACKAGES)
        self._logged: set[str] = set()
        """Modules of which the log has that they are imported in a context."""
        self._of_script: frozenset[str] | None = None
        """The variables that only the script can have set, by a zygote that has imported all packages."""
        self._changed: ChangedVariables | None = None
        self._late: set[str] = set()
        """Variables that a warm worker has changed, and no recorded one before that."""
        self._known: set[str] = set()
        """Those, and all that a recorded worker has changed."""
        self._builds = 0
        """Zygotes since the last warm start."""

    def conditions(self, command: Command) -> StartConditions:
        """Return what this command must have in common with a zygote that it is forked from."""
        stable = {name: value for name, value in command.env.items() if name not in self._varying}
        return StartConditions(
            command.argv,
            command.cwd,
            stable,
            stream_kinds(command),
            len(command.fds),
            is_bound=bool(command.cpus),
            interpreter=find_program(command.argv, command.env, command.cwd).interpreter,
            processors=frozenset(os.sched_getaffinity(0)),
        )

    def check(self, command: Command, pid: int, recording: NodeRecording) -> None:
        """Check the interpreter of the worker that made this recording.

        Raises:
            NotEligibleError: it cannot be warm.
        """
        if recording.greeting is None:
            raise NotEligibleError(_NO_GREETING)
        program = find_program(command.argv, command.env, command.cwd)
        _refuse(eligibility.refuse_interpreter(recording.greeting, pid=pid, program=program, argv=command.argv))

    def check_profile(self, command: Command, profile: ImportProfile) -> None:
        """Check that this command starts the very interpreter that has reported itself on another node.

        Anything else would run the script in the place of a zygote.

        Raises:
            NotEligibleError: it may start another program.
        """
        program = find_program(command.argv, command.env, command.cwd)
        _refuse(eligibility.refuse_program(program) or eligibility.refuse_options(program, command.argv))
        path, modified_ns = profile.interpreter
        is_same = not program.is_script and program.interpreter == path and Path(path).stat().st_mtime_ns == modified_ns
        _refuse("" if is_same else "the command does not start the interpreter of the recording")
        for name in {*_given(profile.variables, command)}.symmetric_difference(profile.given_variables):
            raise NotEligibleError(f"{name} is in the environment of one of the two pods only")

    async def build(
        self, command: Command, imports: ImportSource, *, expected: ImportProfile | None = None
    ) -> ReadyZygote:
        """Start zygotes until one is fit to be forked.

        With an `expected` profile, workers wait for it: there is one attempt, at full speed.

        Raises:
            NotEligibleError: there is a reason against all. Denials of the profile are then forgotten.
            MemoryShortError: there is too little memory for one.
            ZygoteLost: it ended during the imports, or these took too long.
            StartError: it cannot be started.
        """
        if expected is None:
            return await self._build(command, imports, None)
        before = set(self._denied)
        self._denied.update(expected.denied)
        try:
            return await self._build(command, imports, expected)
        except BaseException:
            self._denied = before
            raise

    async def _build(self, command: Command, imports: ImportSource, expected: ImportProfile | None) -> ReadyZygote:
        while self._builds < self._limits.max_builds:
            limit = self._memory.admit()
            self._builds += 1
            recorded, judged = len(imports.modules), copy_of(imports)
            zygote = await self._start(command, judged, expected.files if expected else {})
            self._memory.attribute_kills(zygote.child)
            try:
                report = await self._read_report(zygote, limit, expected)
                self._check_interpreter(command, zygote, report)
                if self._accept(report):
                    profile = self._profile(command, judged, report)
                    return ReadyZygote(zygote, self.conditions(command), profile, recorded, judged)
            except BaseException:
                await zygote.close()
                raise
            await zygote.close(exit_s=self._limits.exit_s)
            if expected:
                raise NotEligibleError("the imports did something else on this node")
        raise NotEligibleError(f"{self._limits.max_builds} zygotes in a row led to no warm start")

    def note_warm_start(self) -> None:
        """Record that workers have started warm: the builds so far were worth their cost."""
        self._builds = 0

    def unknown_variables(self, known: Collection[str]) -> list[str]:
        """Return variables that warm workers have changed, and that an import ahead may have read without that.

        The zygotes were judged with those that are `known`: recorded workers have changed them. The last name may be
        `UNNOTED`.
        """
        self._known.update(known)
        names = self._changed.read() if self._changed else []
        return [
            name for name in names if name not in self._known and not name.startswith(eligibility.CHANGE_NO_RESULTS)
        ]

    def expect_variables(self, names: Iterable[str]) -> None:
        """Judge the next zygotes as if the script changed these variables first; a recording may have another time."""
        found = {*names} - {UNNOTED}
        self._late.update(found)
        self._known.update(found)
        if self._changed:
            self._changed.forget()

    def close(self) -> None:
        """Give back the memory that workers share with this builder. May be called again."""
        if self._changed:
            self._changed.close()
            self._changed = None

    async def _start(self, command: Command, imports: ImportSource, files: Mapping[str, int]) -> Zygote:
        if self._changed is None:
            self._changed = ChangedVariables()
        return await Zygote.start(
            self._supervisor,
            command,
            imports=imports,
            variables={**dict.fromkeys(self._late, ("", "")), **imports.variables},
            changed=self._changed,
            files=files,
            denied=self._denied,
            varying=self._varying,
            output=self._output,
        )

    async def _read_report(self, zygote: Zygote, limit: int, expected: ImportProfile | None) -> PreloadReport:
        longest_s = self._limits.preload_s
        if expected:
            longest_s = min(longest_s, _SLOWER * expected.seconds + _MORE_S, MAX_WAIT_S)
        try:
            async with asyncio.timeout(longest_s):
                return await guarded(zygote.read_report, zygote.child.pid, limit=limit, has_pace=expected is None)
        except MemoryLimitError as error:
            self._memory.note_excess(limit)
            raise MemoryShortError(str(error)) from None
        except TimeoutError:
            # A busy machine may be the reason, so another zygote may try it.
            raise ZygoteLost(f"the imports took longer than {longest_s:.0f} s") from None

    @staticmethod
    def _check_interpreter(command: Command, zygote: Zygote, report: PreloadReport) -> None:
        """Check the interpreter of the zygote, as that of the recording was: its environment may be another one."""
        if report.changed:
            raise NotEligibleError(f"{report.changed} is not the file that another node has recorded")
        _refuse(report.failure)
        if report.greeting is None:
            raise NotEligibleError(_NO_GREETING)
        program = find_program(command.argv, command.env, command.cwd)
        _refuse(
            eligibility.refuse_interpreter(report.greeting, pid=zygote.child.pid, program=program, argv=command.argv)
        )

    def _profile(self, command: Command, imports: ImportSource, report: PreloadReport) -> ImportProfile:
        files = {path: report.files[path] for path in imports.modules.values() if path in report.files}
        interpreter = report.greeting.executable if report.greeting else ""
        variables = {
            name: (module, "")
            for name, module in report.script_variables.items()
            if name not in self._set_by_packages(report)
        }
        return ImportProfile(
            command=command_digest(command.argv),
            interpreter=(interpreter, Path(interpreter).stat().st_mtime_ns),
            modules=imports.modules,
            folders=tuple(imports.folders),
            variables=variables,
            given_variables=_given(variables, command),
            known_variables=tuple(sorted({*imports.known_variables, *self._late})),
            contexts=dict(imports.contexts),
            files=files,
            denied=tuple(sorted(self._denied)),
            seconds=report.seconds,
        )

    def _accept(self, report: PreloadReport) -> bool:
        """Whether this zygote can be forked; False if it must be built again without more packages."""
        if self._denied == eligibility.DENIED_PACKAGES:
            self._of_script = frozenset(report.script_variables)
        denied = eligibility.packages_to_deny(report, self._denied)
        for package, reason in denied.items():
            log.info("not preloaded: %s (%s)", package, reason)
        self._denied.update(denied)
        if denied:
            return False
        for name in [name for name in report.in_context if name not in self._logged]:
            log.info("not preloaded: %s (%s)", name, report.in_context[name])
            self._logged.add(name)
        _refuse(eligibility.refuse_preload(report, self._denied, self._set_by_packages(report)))
        log.info("warm start: %d modules were imported in %.1f s", report.modules, report.seconds)
        return True

    def _set_by_packages(self, report: PreloadReport) -> frozenset[str]:
        """Return the variables that are set by packages which this zygote has not imported."""
        return frozenset() if self._of_script is None else frozenset(report.script_variables) - self._of_script


def _given(variables: Iterable[str], command: Command) -> tuple[str, ...]:
    """Return those of these variables that the command gives to its worker."""
    return tuple(sorted(name for name in variables if name in command.env))


def _refuse(reason: str) -> None:
    if reason:
        raise NotEligibleError(reason)
