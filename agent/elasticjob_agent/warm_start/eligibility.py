"""Whether a command may be started warm: each function returns the reason against it, or an empty text.

The reason ends up in the agent's log, after `not warm: `. A warm start must never differ from a cold one silently, so
everything that was not tested is a reason.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from elasticjob_agent.warm_start.greeting import Greeting
from elasticjob_agent.warm_start.preload_report import PreloadReport
from elasticjob_agent.warm_start.program import Program

MIN_VERSION, MAX_VERSION = (3, 8), (3, 13)
DENIED_PACKAGES = frozenset({"mpi4py", "horovod", "debugpy", "pydevd"})
"""Packages that keep the identity of the process that imports them, for example its rank or its connections."""


READ_WHEN_LOADED = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "MALLOC_", "MIMALLOC_", "LD_"),
    *("TF_", "PYTORCH_", "ATEN_", "ONEDNN_", "DNNL_", "MKLDNN_", "ARROW_", "OPENCV_", "GLOG_", "GRPC_", "TBB_"),
    *("TORCH_CPP_", "TORCH_DISTRIBUTED_DEBUG", "TORCH_SHOW_CPP_", "TORCH_ALLOW_TF32_", "TORCH_BLAS_", "TORCH_LINALG_"),
    *("NPY_", "HDF5_USE_FILE_LOCKING", "HDF5_DRIVER", "HDF5_VOL_", "HDF5_PLUGIN_", "OPENSSL_", "SSL_CERT_", "KINETO_"),
)
"""Variables whose names begin so are read in C when a library is loaded, which nothing can watch."""
_READ_IN_PYTHON = frozenset({"PYTORCH_NVML_BASED_CUDA_CHECK"})
"""Of these, variables that only Python code reads, which is watched. Lightning sets one when it is imported."""
CHANGE_NO_RESULTS = ("TF_CPP_", "TORCH_CPP_LOG_LEVEL", "KINETO_LOG_LEVEL", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")
"""Of these, the names of variables that change no results. JAX and ultralytics set levels of logs when imported.

scikit-learn sets the others, by which a second OpenMP and an old fault of a library end no process.
"""
_SKIPPING_OPTIONS = frozenset("IES")
"""Options of Python that ignore PYTHONPATH or the module `site`."""
_SCRIPT_OPTIONS = frozenset("cm")
_VALUE_OPTIONS = _SCRIPT_OPTIONS | {"W", "X"}
_FORKS_WITH_DEBUG_ALLOCATOR = (3, 9)
_MAX_COMMAND = 1 << 15
"""Characters of the arguments, with escapes. The pipe of a recorder takes twice as many, with all other facts."""


@dataclass(frozen=True, slots=True)
class StartConditions:
    """The facts that a worker which is started warm has in common with its zygote."""

    argv: tuple[str, ...]
    cwd: str | None
    environment: Mapping[str, str]
    """Without the variables that differ by rank or round."""
    streams: tuple[str, str]
    """The kinds of stdout and stderr: Python chooses their buffers when it starts."""
    descriptors: int = 0
    """The number of further descriptors that the command passes on."""
    is_bound: bool = False
    """Whether it is bound to processors."""
    interpreter: str = ""
    """The program file that runs, without symbolic links."""
    processors: frozenset[int] = frozenset()
    """Those that the agent may use, by which libraries choose their threads. The kernel may change them."""


def refuse_program(program: Program) -> str:
    """Return the reason against a command whose first word is this program."""
    if program.is_missing:
        return f"{program.name} was not found"
    if not program.interpreter:
        return f"{program.name} is not Python and does not name it in its first line"
    return ""


def refuse_length(argv: Sequence[str]) -> str:
    """Return the reason against a command that is too long for the greeting, which repeats it."""
    return "the command is longer than 32 KiB" if len(ascii(list(argv))) > _MAX_COMMAND else ""


def refuse_options(program: Program, argv: Sequence[str]) -> str:
    """Return the reason against the options of Python itself, which come before the script."""
    if program.is_script or not PurePath(program.interpreter).name.startswith("python"):
        return ""
    option = skipping_option(argv[1:])
    return f"the option -{option} keeps Python from loading the warm start" if option else ""


def skipping_option(words: Sequence[str]) -> str:
    """Return the first letter of an option before the script that skips `site`, or an empty text."""
    return next((letter for letter, _ in _options(words) if letter in _SKIPPING_OPTIONS), "")


def script_module(words: Sequence[str]) -> str:
    """Return the module that `-m` runs as the script, or an empty text."""
    return next((value for letter, value in _options(words) if letter == "m"), "")


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the letters of Python's own options, which come before the script, each with its value, if any."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word in {"-", "--"}:
            return
        if word.startswith("--"):  # its one option with a value is --check-hash-based-pycs
            next(rest, None)
            continue
        for end, letter in enumerate(word[1:], 2):
            if letter not in _VALUE_OPTIONS:
                yield letter, ""
                continue
            yield letter, word[end:] or next(rest, "")
            if letter in _SCRIPT_OPTIONS:
                return
            break


def refuse_interpreter(greeting: Greeting, *, pid: int, program: Program, argv: Sequence[str]) -> str:
    """Return the reason against the interpreter that sent this greeting; `pid` is the worker's."""
    if greeting.pid != pid or greeting.executable != program.interpreter or not _has_same_words(greeting, argv):
        return f"{argv[0]} starts Python in its own way"
    return _refuse_state(greeting) or _refuse_build(greeting)


def _refuse_state(greeting: Greeting) -> str:
    if greeting.inspect or greeting.argv0 in {"", "-"}:
        return "the interpreter is interactive, or reads its script from stdin"
    if greeting.usercustomize:
        return "a usercustomize module runs before the script"
    if greeting.debug_allocator and greeting.version < _FORKS_WITH_DEBUG_ALLOCATOR:
        return "Python 3.8 crashes at the end of a forked process that checks its memory (-X dev, PYTHONMALLOC)"
    if greeting.import_log:
        return "an option has Python write about its imports"
    if greeting.tracer:
        return "a debugger or coverage tool is active before the script begins"
    return ""


def _refuse_build(greeting: Greeting) -> str:
    if greeting.implementation != "cpython" or greeting.debug_build or not greeting.gil:
        return "only usual builds of CPython have been tested"
    if not MIN_VERSION <= greeting.version[:2] <= MAX_VERSION:
        return f"Python {'.'.join(map(str, greeting.version))} has not been tested"
    if not greeting.libc.startswith("glibc"):
        return "only glibc has been tested"
    return ""


def _has_same_words(greeting: Greeting, argv: Sequence[str]) -> bool:
    """Whether the interpreter got exactly these arguments, or the kernel put it in front of a script that names it."""
    script, words = PurePath(argv[0]).name, tuple(argv[1:])
    if greeting.cmdline[1:] == words:
        return True
    place = len(greeting.cmdline) - len(argv)
    return place > 0 and PurePath(greeting.cmdline[place]).name == script and greeting.cmdline[place + 1 :] == words


_SIDE_EFFECTS = {
    "thread": "leaves a thread",
    "descriptor": "leaves a descriptor open",
    "stream": "redirects or closes a standard stream",
    "child": "leaves a process",
    "memory": "leaves memory that all workers would share",
    "no fork": "leaves memory that forked workers do not have (MADV_DONTFORK)",
    "empty fork": "leaves memory that is empty in forked workers (MADV_WIPEONFORK)",
    "subreaper": "makes its process a subreaper, which would become the parent of all workers",
}
_FOUND_AT_ONCE = frozenset({"thread", "descriptor", "stream", "child", "timer", "subreaper"})
"""Kinds that are looked for after each import, so that their cause is known. The others cost more."""


def refuse_preload(report: PreloadReport, denied: Collection[str], set_by_packages: Collection[str] = ()) -> str:
    """Return the reason against forking this zygote, which has been built without the packages in `denied`.

    `set_by_packages` are the variables that these set, and not the script.
    """
    for reason in report.before_script:
        return reason
    for name, kind, what in report.side_effects:
        return f"importing {name} {_describe_side_effect(kind, what)}"
    reasons = (
        [f"an import sets {name}, which differs by rank" for name in report.writes]
        + [f"an import reads {names[0]}, which differs by rank" for names in report.reads.values()]
        + [f"an import reads {name}, {_BY_SCRIPT}" for name in report.script_reads]
        + [f"an import sets {name}, {_BY_SCRIPT}" for name in report.script_writes]
        + [
            f"the script or a package sets {name}, which libraries read when loaded; set it in the pod's env"
            for name in report.script_variables
            if name.startswith(READ_WHEN_LOADED)
            and name not in _READ_IN_PYTHON
            and not (name in set_by_packages and name.startswith(CHANGE_NO_RESULTS))
        ]
        + [f"{name or 'an import'} {what}" for name, what in report.unsafe.items()]
        + [f"the script has another {name} than the installed packages" for name in report.different]
        + [f"an import makes {what}" for what in report.temporary.values()]
        + [f"an import loads {name}, which each worker must import itself" for name in _loaded(report, denied)]
        + [f"an import loads {name}, which is not an installed package" for name in report.outside]
        + ["an import changes the working directory"] * report.folder_changed
        + ["an import starts a debugger or coverage tool"] * report.tracer
        + ["the script imports nothing that takes time"] * (not report.modules)
    )
    return next(iter(reasons), "")


def _describe_side_effect(kind: str, what: str) -> str:
    return f"{_SIDE_EFFECTS.get(kind, f'leaves a {kind}')}: {what}"


_MAX_PARTS = 3
"""Modules of one package to deny one after the other, before the whole package is denied."""
_BY_SCRIPT = "which the script has set or removed before"


def _loaded(report: PreloadReport, denied: Collection[str]) -> list[str]:
    return sorted(report.top_level.intersection(denied))


def packages_to_deny(report: PreloadReport, denied: Collection[str]) -> dict[str, str]:
    """Return the packages that must be imported by each worker itself, each with the reason.

    A package that comes in although it is denied is imported by another one, so that one is denied too.
    """
    found = {package: f"reads {', '.join(names)} when it is imported" for package, names in report.reads.items()}
    for name, readers in report.script_reads.items():
        for reader in readers:
            found.setdefault(_part_to_deny(reader, denied), f"reads {name}, {_BY_SCRIPT}")
    for name, writers in report.script_writes.items():
        for package in writers:
            found.setdefault(package, f"sets {name}, {_BY_SCRIPT}")
    for name, kind, what in report.side_effects:
        if kind in _FOUND_AT_ONCE and name.replace(".", "").isidentifier():  # else it is no module
            found.setdefault(_part_to_deny(name, denied), _describe_side_effect(kind, what))
    for module, what in report.temporary.items():
        found.setdefault(module.partition(".")[0], f"makes {what} when it is imported")
    for name, what in report.unsafe.items():
        # A module that comes in although it is denied is brought by another one, usually of the same package.
        found.setdefault(name.partition(".")[0] if name in denied else name, what)
    for package in _loaded(report, {*denied, *found}):
        found.setdefault(report.brought_by.get(package, ""), f"imports {package}")
    return {package: reason for package, reason in found.items() if package and package not in denied}


def _part_to_deny(reader: str, denied: Collection[str]) -> str:
    """Return this module or package; the whole package if many of its modules had to be denied, one build each."""
    package, _, rest = reader.partition(".")
    many = sum(each.startswith(package + ".") for each in denied) >= _MAX_PARTS
    return package if rest and many else reader


def refuse_conditions(zygote: StartConditions, worker: StartConditions) -> str:
    """Return the reason against starting this worker from that zygote."""
    differences = {
        "its arguments differ from those of the first worker": worker.argv != zygote.argv,
        "the processors of this pod are not those that the imports had": worker.processors != zygote.processors,
        "its program is another one than that of the first worker": worker.interpreter != zygote.interpreter,
        "its working directory differs from that of the first worker": worker.cwd != zygote.cwd,
        "stdout or stderr is of another kind than in the first worker": worker.streams != zygote.streams,
        "descriptors are passed on to it": worker.descriptors != zygote.descriptors,
        "it is bound to processors, by which libraries choose their threads when they are imported": worker.is_bound,
    }
    for reason in (reason for reason, is_different in differences.items() if is_different):
        return reason
    for name in sorted({*zygote.environment, *worker.environment}):
        if zygote.environment.get(name) != worker.environment.get(name):
            return f"{name} differs from what the modules were imported with"
    return ""
