"""Import the modules of an earlier worker once, and find out what a fork after that could get wrong.

A module is imported only from the standard library or from a folder of installed packages. It must be the very file
that the earlier worker had. So code that a user edits beside the script is never older than the script.
"""

import contextlib
import gc
import importlib
import importlib.util
import os
import sys
import zipimport
from importlib.machinery import ModuleSpec

from . import entry, originals, process_facts, recorder
from .context_check import ContextCheck
from .data_files import DataFiles
from .distributions import can_be_listed, distributions_in
from .environment import RecordingEnvironment
from .import_check import ImportCheck, changed_times, modules_beside, path_files
from .import_watch import ImportWatch
from .missing_modules import MissingModules
from .package_path import PackagePath, find_package_path
from .paused_collector import PausedCollector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


PROTOCOL = 3
"""Version of the messages between agent and zygote: the files of a running agent may be replaced."""
_STREAMS = (0, 1, 2)
_SITE = {"site": "a .pth file", "sitecustomize": "sitecustomize"}
"""Modules whose code is that of a file → this file, as the subject of a sentence."""
_READERS = {"__getattr__", "__getattribute__"}


class Preload:
    """The imports of one zygote, and the report about them. It watches from its creation on."""

    def __init__(
        self, plan: "dict[str, object]", own_descriptors: "Iterable[int]", modules_before: "frozenset[str]"
    ) -> None:
        """Begin to watch.

        Args:
            plan: "protocol" (its version), "modules" (names in their order, each with its file), and "denied"
                (packages, and modules of others). It also has "varying" (variables) and "folders" (entries that the
                earlier worker had added to sys.path). It has "variables" that were changed in that worker, each with
                the module imported before that, and the value. "known" has all variables that a worker is known to
                change. "contexts" has modules, each with its text of import_contexts.py. "read_in_c" has first
                letters of variables. If one of its "files" has another time of modification, nothing is imported.
                "script" is the module that `-m` runs.
            own_descriptors: are ours; they are not in a forked worker.
            modules_before: the modules that Python has loaded by itself.
        """
        if plan.get("protocol") != PROTOCOL:
            raise ValueError("the agent is of another version")
        self._plan = plan
        self._own_descriptors = tuple(own_descriptors)
        self._folder = os.getcwd()
        self._not_imported: "dict[str, str]" = {}
        self._causes: "dict[tuple[str, str], str]" = {}
        self._facts: "dict[tuple[str, str], str]" = {}
        self.environment = RecordingEnvironment(plan["read_in_c"])  # type: ignore[arg-type]
        self._watch = ImportWatch()
        self._data_files = DataFiles(self._watch.note_write)
        self.generators = self._watch.generators
        self._denied: "set[str]" = set(plan["denied"])  # type: ignore[call-overload]
        self._varying: "set[str]" = set(plan["varying"])  # type: ignore[call-overload]
        self.environment.watch(self._varying, plan["known"])  # type: ignore[arg-type]
        self._script = str(plan["script"])
        self._script_file = os.path.realpath((getattr(sys, "argv", None) or [""])[0])
        self._modules_before = modules_before
        self._own_modules = set(sys.modules) - modules_before
        self._of_site: "set[str]" = set()
        self._brought_by: "dict[str, str]" = {}
        self.packages = PackagePath([])
        self.check = ImportCheck(files={}, top_level=[], folders=[])
        self._streams = {fd: process_facts.descriptors().get(fd) for fd in _STREAMS}
        self._path = list(sys.path)
        self._environ = os.environ

    @property
    def made_temporary_files(self) -> bool:
        """Whether an import has asked for the name of a temporary file, which its exit functions may remove."""
        return self._watch.made_temporary_files

    def run(self) -> "dict[str, object]":
        """Import everything; return the report, which the agent judges."""
        plan, began_s = self._plan, originals.time.monotonic()
        greeting = ascii(recorder.greeting())
        changed = ImportCheck(files=plan["files"], top_level=[], folders=[]).first_changed()  # type: ignore[arg-type]
        if changed:
            return _report_of_nothing(changed)
        modules: "dict[str, str]" = plan["modules"]  # type: ignore[assignment]
        self._of_site = set(sys.modules) - self._modules_before - self._own_modules
        self.packages = packages = find_package_path()
        before = _modification_times([*modules.values(), *map(_origin_in_spec, self._of_site)])
        before.update(path_files(packages.folders))
        changed_before = changed_times(before)
        folder_times = _modification_times(packages.folders)  # a new package may hide another one, or be found by one
        variables: "dict[str, list[str]]" = plan["variables"]  # type: ignore[assignment]
        changes = _changes_after(modules, variables)
        self._path = list(sys.path)
        distributions = distributions_in([*packages.folders, *sys.path])
        collector = PausedCollector()
        missing = MissingModules(modules, modules_beside(plan["folders"], packages.folders))  # type: ignore[arg-type]
        self._contexts = contexts = ContextCheck(plan.get("contexts", {}), modules, self._denied)  # type: ignore[arg-type]
        try:
            self._compare("code before the script")
            self._data_files.write_no_more()
            self.environment.expect_changes(changes.get("", {}))
            for name, origin in modules.items():
                self._import(name, origin)
                self.environment.expect_changes(changes.get(name, {}))
        finally:
            contexts.stop()
            collector.end()
            self._watch.unsafe.update(contexts.refused)
            for package, what in missing.stop().items():
                self._watch.unsafe.setdefault(package, what)
            data = self._watched(self._data_files.stop())
            self.environment.stop()  # before its dict is given back
            self._watch.stop([collector.replaced, self.environment.replaced, self._data_files.replaced])
            for package in self.environment.readers_of_all:
                self._watch.unsafe.setdefault(package, "reads all variables when it is imported")
        _fork_once()
        report = self._report(modules)
        report.update(self._script_changes(variables))
        # A file that has changed since it was read has its old time here, so that the first check finds it.
        files: "dict[str, int]" = report["files"]  # type: ignore[assignment]
        files.update((path, time_ns) for path, time_ns in before.items() if path in files)
        self.check = ImportCheck(
            files={**data, **files, **folder_times},
            top_level=report["top_level"],  # type: ignore[arg-type]
            folders=plan["folders"],  # type: ignore[arg-type]
            package_folders=packages.folders,
            changed=changed_before,
            distributions=distributions if can_be_listed() else None,
        )
        report.update(in_context=contexts.left_out, protocol=PROTOCOL, greeting=greeting)
        report["seconds"] = originals.time.monotonic() - began_s
        forget_folders()  # here, too: it frees much, and each worker would copy the pages to free them
        gc.collect(1)  # the oldest generation has been collected since the imports
        gc.freeze()
        return report

    def _watched(self, data: "dict[str, int]") -> "dict[str, int]":
        """Return these files of data without the code of installed packages."""
        # transformers reads the code of all its models, to list their names. An upgrade changes imported files, too.
        return {
            path: time_ns for path, time_ns in data.items() if not (path.endswith(".py") and self.packages.has(path))
        }

    def _import(self, name: str, origin: str) -> None:
        package, _, rest = name.partition(".")
        if name in sys.modules or not self._denied.isdisjoint((name, package)) or entry.is_own_module(name):
            return
        # The parent is imported by itself, or it is a module that must not be: find_spec() would import it.
        if package in self._not_imported or (rest and entry.loaded(name.rpartition(".")[0]) is None):
            return
        if not self._contexts.begin(name):
            return
        self._watch.begin(package)
        self.environment.importing = name
        before = set(sys.modules)
        try:
            spec = importlib.util.find_spec(name)
            if spec is None or not self.packages.has_module(spec) or not _is_same_file(spec.origin, origin):
                return
            if self._is_program(spec):
                return
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - the module of a worker may raise anything, also SystemExit
            self._not_imported[name] = type(error).__name__
            # It may have changed other modules before. So the next zygote does not begin it at all.
            what = "raises {} when it is imported ahead".format(type(error).__name__)
            self._watch.unsafe.setdefault(name, what)
        self._contexts.end()
        new = set(sys.modules) - before
        for each in new:
            self._brought_by.setdefault(each.partition(".")[0], package)
            # A cold worker gets the warning of runpy only if a package above the script imports it.
            if self._is_script(each) and not each.startswith(name):
                self._watch.unsafe.setdefault(package, "imports the module that -m runs")
        self._compare(name)
        self._compare_path(package)
        if os.environ is not self._environ:  # nothing would give a worker's own values to another object
            os.environ = self._environ  # noqa: B003 - this is the object of Python itself
            self._watch.unsafe.setdefault(package, "replaces os.environ when it is imported")

    def _is_script(self, name: str) -> bool:
        """Whether `-m` runs this module: runpy warns if it is there already. A package may be there."""
        return bool(self._script) and name in {self._script, self._script + ".__main__"}

    def _is_program(self, spec: "ModuleSpec") -> bool:
        """Whether this is the script, or another module that is a program: its code may do the work of the script."""
        if spec.submodule_search_locations is not None:
            return False
        is_script_file = bool(spec.origin) and os.path.realpath(str(spec.origin)) == self._script_file
        return is_script_file or self._is_script(spec.name) or spec.name.endswith(".__main__")

    def _compare_path(self, package: str) -> None:
        """Record a package whose import has changed sys.path, other than at its end."""
        # The folder of the script is not in front of it yet. So an entry would get another place than in a cold worker.
        if sys.path[: len(self._path)] != self._path:
            self._watch.unsafe.setdefault(package, "changes more of sys.path than its end when it is imported")
        self._path = list(sys.path)

    def _compare(self, name: str) -> None:
        """Record which import has changed this process besides its modules: threads, descriptors, children."""
        facts = self._side_effects()
        if "." not in name:  # these cost more
            facts.update(process_facts.read_shared_memory())
        for each in facts.keys() - self._facts.keys():
            self._causes.setdefault(each, name)
        self._facts = facts

    def _side_effects(self) -> "dict[tuple[str, str], str]":
        """Return what this process has besides what it was started with."""
        facts = process_facts.read_facts()
        for fd in self._own_descriptors:
            facts.pop(("descriptor", str(fd)), None)
        for fd in _STREAMS:
            target = facts.pop(("descriptor", str(fd)), None)
            if target != self._streams[fd]:
                facts["stream", str(fd)] = target or "closed"
        return facts

    def _report(self, modules: "dict[str, str]") -> "dict[str, object]":
        facts = {**self._side_effects(), **process_facts.read_shared_memory()}
        facts.update(process_facts.read_memory_without_forks())
        if process_facts.has_posix_timers():
            facts["timer", "timer_create"] = "timer_create"
        loaded = [name for name in sys.modules if name not in self._modules_before and not entry.is_own_module(name)]
        # Python loads the others before each script, so no file beside it hides them.
        added = [name for name in loaded if name not in self._of_site]
        reads, unsafe = self._reads(), dict(self._watch.unsafe)
        before_script = _acts_before_script({name.partition(".")[0] for name in self._of_site}, reads, unsafe)
        return {
            "modules": len(added),
            "not_imported": self._not_imported,
            "reads": reads,
            "writes": sorted(self.environment.writes & self._varying),
            "temporary": {},
            "unsafe": unsafe,
            "before_script": before_script,
            "brought_by": self._brought_by,
            "side_effects": [[self._causes.get(each, "a module"), each[0], what] for each, what in facts.items()],
            "outside": [name for name in added if not self._is_installed(name)][:20],
            "different": [name for name in added if name in modules and not self._is_recorded(name, modules[name])][
                :20
            ],
            "folder_changed": os.getcwd() != self._folder,
            "tracer": recorder.has_tracer(),
            "top_level": sorted({name.partition(".")[0] for name in added}),
            "files": {**_modification_times(map(_origin_in_spec, loaded)), **path_files(self.packages.folders)},
        }

    def _script_changes(self, variables: "dict[str, list[str]]") -> "dict[str, object]":
        """Return the parts of the report about variables of the script; `variables` are all that were changed."""
        return {
            "script_variables": {name: variables[name][0] for name in sorted(self.environment.script_variables)},
            "script_reads": {name: sorted(readers) for name, readers in self.environment.script_reads.items()},
            "script_writes": {name: sorted(writers) for name, writers in self.environment.script_writes.items()},
        }

    def _reads(self) -> "dict[str, list[str]]":
        """Return the packages that have read a variable that differs by rank or round."""
        reads: "dict[str, list[str]]" = {}
        for name in sorted(self._varying & self.environment.reads.keys()):
            for package in self.environment.reads[name]:
                reads.setdefault(package, []).append(name)
        return reads

    def _is_installed(self, name: str) -> bool:
        spec = entry.spec_of(sys.modules[name])
        # Another object may have any attribute.
        return not isinstance(spec, ModuleSpec) or self.packages.has_module(spec)

    @staticmethod
    def _is_recorded(name: str, origin: str) -> bool:
        spec = entry.spec_of(sys.modules[name])
        return spec is None or _is_same_file(entry.origin_of(name), origin)


def _acts_before_script(packages: "set[str]", reads: "dict[str, list[str]]", unsafe: "dict[str, str]") -> "list[str]":
    """Move what these packages did, which each Python loads before its script, out of the other two; return it."""
    found = []
    for package in sorted({*packages, *_SITE} & {*reads, *unsafe}):
        who = _SITE.get(package, package + ", which Python loads before the script,")
        if package in reads:
            found.append("{} reads {}".format(who, ", ".join(reads.pop(package))))
        if package in unsafe:
            what = unsafe.pop(package)
            found.append("{} {}".format(who, what.replace(" when it is imported", "")))
    return found


def _changes_after(modules: "dict[str, str]", variables: "dict[str, list[str]]") -> "dict[str, dict[str, str]]":
    """Return by module the variables that were changed after its import, each with its value; "" is the begin."""
    changes: "dict[str, dict[str, str]]" = {}
    for variable, (module, value) in variables.items():
        changes.setdefault(module if module in modules else "", {})[variable] = value
    return changes


def report_of_failure(error: Exception) -> "dict[str, object]":
    """Return a report without any import that names the function of the imports which has raised this error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = "" if trace is None else trace.tb_frame.f_code.co_name
    module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    cure = "let it raise AttributeError" if name in _READERS else "change that in the script, after its imports"
    # Code of this package fails if an import has replaced a function that it calls.
    is_replaced = module.startswith(__name__.partition(".")[0])
    subject = "a function of Python that an import has replaced" if is_replaced else "{}.{}".format(module, name)
    reason = "{} raises {} in the zygote; {}".format(subject, type(error).__name__, cure)
    return {**_report_of_nothing(""), "failure": reason}


def _report_of_nothing(changed: str) -> "dict[str, object]":
    """Return a report without any import: this file is not the expected one."""
    empty: "dict[str, object]" = {"seconds": 0.0, "modules": 0, "top_level": [], "reads": {}, "writes": []}
    rest: "dict[str, object]" = {"temporary": {}, "side_effects": [], "outside": [], "unsafe": {}, "different": []}
    return {**empty, **rest, "folder_changed": False, "tracer": False, "changed": changed, "protocol": PROTOCOL}


def forget_folders() -> None:
    """Forget the listings of folders and archives: files may have changed since the imports."""
    sys.path_importer_cache.clear()
    zipimport._zip_directory_cache.clear()  # type: ignore[attr-defined]
    importlib.invalidate_caches()


def _is_same_file(origin: object, recorded: str) -> bool:
    found = origin if isinstance(origin, str) else ""
    return found == recorded or os.path.realpath(found) == os.path.realpath(recorded)


def _origin_in_spec(name: str) -> object:
    """Return the file of this module, or the archive that has it."""
    spec = entry.spec_of(sys.modules[name])
    loader = getattr(spec, "loader", None)
    return loader.archive if isinstance(loader, zipimport.zipimporter) else getattr(spec, "origin", None)


def _modification_times(paths: "Iterable[object]") -> "dict[str, int]":
    """Return those of these files that exist, each with its time of modification in nanoseconds."""
    files = {}
    for path in paths:
        if isinstance(path, str):
            with contextlib.suppress(OSError, ValueError):  # built-in and frozen modules have no file
                files[path] = os.stat(path).st_mtime_ns
    return files


def _fork_once() -> None:
    """Fork once: some libraries end their threads before a fork (pthread_atfork)."""
    os, signal = originals.os, originals.signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    with contextlib.suppress(ChildProcessError):  # an import ignores SIGCHLD; it has ended then, too
        os.waitpid(pid, 0)
    signal.sigtimedwait({signal.SIGCHLD}, 0)  # a handler of an import is not called for our process
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
