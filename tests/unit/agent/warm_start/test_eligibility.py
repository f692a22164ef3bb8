"""Reasons against a warm start: of the program, its options, its interpreter, its imports, and of a later start."""

from dataclasses import replace

import pytest

from elasticjob_agent.warm_start.eligibility import (
    StartConditions,
    packages_to_deny,
    refuse_conditions,
    refuse_interpreter,
    refuse_options,
    refuse_preload,
    refuse_program,
    script_module,
)
from elasticjob_agent.warm_start.greeting import Greeting
from elasticjob_agent.warm_start.preload_report import PreloadReport
from elasticjob_agent.warm_start.program import Program

_PYTHON = Program("python", "/usr/bin/python3.11")
_ARGV = ("python", "train.py", "--epochs=1")
_GREETING = Greeting(
    pid=7,
    executable="/usr/bin/python3.11",
    cmdline=_ARGV,
    argv0="train.py",
    version=(3, 11, 7),
    implementation="cpython",
    libc="glibc 2.36",
    gil=True,
    debug_build=False,
    tracer=False,
    inspect=False,
    safe_path=False,
    usercustomize=False,
    import_log=False,
    debug_allocator=False,
)


@pytest.mark.parametrize(
    ("options", "module"),
    [
        ("-m train -m other", "train"),
        ("-um train", "train"),
        ("-mtrain", "train"),
        ("-W error -X dev -m train", "train"),
        ("-Wm train.py", ""),
        ("-c pass -m train", ""),
        ("--check-hash-based-pycs always -m app.train", "app.train"),
        ("train.py -m train", ""),
        ("-m", ""),
    ],
)
def test_the_module_that_is_the_script(options: str, module: str) -> None:
    assert script_module(options.split()) == module


def test_a_program_must_be_python_or_name_it() -> None:
    assert refuse_program(_PYTHON) == ""
    assert refuse_program(Program("trian", is_missing=True)) == "trian was not found"
    assert refuse_program(Program("run.sh")) == "run.sh is not Python and does not name it in its first line"


@pytest.mark.parametrize(
    ("options", "letter"),
    [
        ("-I train.py", "I"),
        ("-E train.py", "E"),
        ("-S train.py", "S"),
        ("-Is train.py", "I"),
        ("-sE train.py", "E"),
        ("-W error -E train.py", "E"),
        ("-Werror -E train.py", "E"),
        ("-X dev -u -S train.py", "S"),
        ("--check-hash-based-pycs always -I train.py", "I"),
        ("-I -m train", "I"),
        ("train.py -I", ""),
        ("-u train.py -I", ""),
        ("-m train -I", ""),
        ("-mtrain -I", ""),
        ("-c pass -I", ""),
        ("-X IES train.py", ""),
        ("-XIES train.py", ""),
        ("-- -I", ""),
        ("- -I", ""),
        ("", ""),
    ],
)
def test_an_option_before_the_script_that_skips_site_is_a_reason(options: str, letter: str) -> None:
    reason = f"the option -{letter} keeps Python from loading the warm start" if letter else ""
    assert refuse_options(_PYTHON, ("python", *options.split())) == reason


def test_options_of_a_script_or_of_another_program_are_not_pythons() -> None:
    assert refuse_options(replace(_PYTHON, is_script=True), ("./train", "-I")) == ""
    assert refuse_options(Program("env", "/usr/bin/env"), ("env", "-i", "-S", "python")) == ""


def _refuse(greeting: Greeting, *, argv: tuple[str, ...] = _ARGV, program: Program = _PYTHON) -> str:
    return refuse_interpreter(greeting, pid=7, program=program, argv=argv)


def test_the_usual_interpreter_has_no_reason_against_it() -> None:
    assert _refuse(_GREETING) == ""
    for minor in range(8, 14):
        assert _refuse(replace(_GREETING, version=(3, minor, 0))) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pid": 8}, "python starts Python in its own way"),
        ({"executable": "/opt/python"}, "python starts Python in its own way"),
        ({"cmdline": ("python", "train.py")}, "python starts Python in its own way"),
        ({"cmdline": ("python", "-u", *_ARGV[1:])}, "python starts Python in its own way"),
        ({"inspect": True}, "the interpreter is interactive, or reads its script from stdin"),
        ({"argv0": ""}, "the interpreter is interactive, or reads its script from stdin"),
        ({"argv0": "-"}, "the interpreter is interactive, or reads its script from stdin"),
        ({"tracer": True}, "a debugger or coverage tool is active before the script begins"),
        ({"usercustomize": True}, "a usercustomize module runs before the script"),
        ({"import_log": True}, "an option has Python write about its imports"),
        ({"implementation": "pypy"}, "only usual builds of CPython have been tested"),
        ({"debug_build": True}, "only usual builds of CPython have been tested"),
        ({"gil": False}, "only usual builds of CPython have been tested"),
        ({"version": (3, 7, 9)}, "Python 3.7.9 has not been tested"),
        ({"version": (3, 14, 0)}, "Python 3.14.0 has not been tested"),
        ({"libc": ""}, "only glibc has been tested"),
    ],
)
def test_an_interpreter_that_was_not_tested_is_a_reason(change: dict[str, object], reason: str) -> None:
    assert _refuse(replace(_GREETING, **change)) == reason  # type: ignore[arg-type]


def test_the_kernel_may_put_the_interpreter_in_front_of_a_script() -> None:
    argv = ("./train", "--epochs=1")
    program = Program("./train", "/usr/bin/python3.11", is_script=True)
    in_front = replace(_GREETING, cmdline=("/usr/bin/python3.11", "-u", "/job/train", "--epochs=1"))
    assert _refuse(in_front, argv=argv, program=program) == ""
    other = replace(in_front, cmdline=("/usr/bin/python3.11", "/job/other", "--epochs=1"))
    assert _refuse(other, argv=argv, program=program) == "./train starts Python in its own way"


_REPORT = PreloadReport(seconds=1.0, modules=3, top_level=frozenset({"torch", "numpy"}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"side_effects": (("a module", "thread", "python"),)}, "importing a module leaves a thread: python"),
        (
            {"side_effects": (("x", "memory", "/dev/zero"),)},
            "importing x leaves memory that all workers would share: /dev/zero",
        ),
        ({"side_effects": (("a module", "invented", "x"),)}, "importing a module leaves a invented: x"),
        ({"writes": ("RANK",)}, "an import sets RANK, which differs by rank"),
        ({"reads": {"": ("RANK",)}}, "an import reads RANK, which differs by rank"),
        ({"temporary": {"": "a temporary file"}}, "an import makes a temporary file"),
        ({"outside": ("own",)}, "an import loads own, which is not an installed package"),
        ({"folder_changed": True}, "an import changes the working directory"),
        ({"tracer": True}, "an import starts a debugger or coverage tool"),
        ({"modules": 0}, "the script imports nothing that takes time"),
        ({"top_level": frozenset({"mpi4py"})}, "an import loads mpi4py, which each worker must import itself"),
    ],
)
def test_an_effect_of_the_imports_that_a_fork_would_get_wrong_is_a_reason(
    change: dict[str, object], reason: str
) -> None:
    assert refuse_preload(replace(_REPORT, **change), {"mpi4py"}) == reason  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        *("OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "TORCH_CPP_LOG_LEVEL", "TORCH_DISTRIBUTED_DEBUG"),
        *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NPY_DISABLE_CPU_FEATURES", "HDF5_USE_FILE_LOCKING"),
        *("MKLDNN_MAX_CPU_ISA", "OPENSSL_CONF", "SSL_CERT_FILE", "HDF5_PLUGIN_PATH"),
    ],
)
def test_a_variable_that_libraries_read_in_c_is_a_reason(name: str) -> None:
    report = replace(_REPORT, script_variables={name: "torch", "FOO": "torch"})
    reason = f"the script or a package sets {name}, which libraries read when loaded; set it in the pod's env"
    assert refuse_preload(report, frozenset()) == reason


def test_a_variable_that_only_python_code_reads_is_no_reason() -> None:
    report = replace(_REPORT, script_variables={"PYTORCH_NVML_BASED_CUDA_CHECK": "torch"})
    assert refuse_preload(report, frozenset()) == ""


def test_a_package_that_belongs_to_one_rank_is_denied_with_the_one_that_imports_it() -> None:
    report = replace(
        _REPORT,
        top_level=frozenset({"lightning", "trainer", "cache"}),
        brought_by={"lightning": "trainer", "trainer": "trainer", "cache": "cache"},
        reads={"lightning": ("RANK", "LOCAL_RANK")},
        temporary={"cache.folder": "a temporary file"},
    )
    first = packages_to_deny(report, {"mpi4py"})
    assert first == {
        "lightning": "reads RANK, LOCAL_RANK when it is imported",
        "cache": "makes a temporary file when it is imported",
        "trainer": "imports lightning",
    }
    assert packages_to_deny(report, {"mpi4py", *first}) == {}


def test_a_package_that_leaves_more_than_modules_is_denied_if_it_is_known() -> None:
    effects = (
        ("grpc", "thread", "python"),
        ("cupy.cuda", "descriptor", "/dev/nvidia0"),
        ("ray", "child", "process 9"),
        ("a module", "thread", "python"),
        ("code before the script", "thread", "python"),
        ("numpy", "memory", "/dev/zero"),
    )
    assert packages_to_deny(replace(_REPORT, side_effects=effects), set()) == {
        "grpc": "leaves a thread: python",
        "cupy.cuda": "leaves a descriptor open: /dev/nvidia0",
        "ray": "leaves a process: process 9",
    }


def test_a_denied_module_that_its_package_imports_all_the_same_denies_the_package() -> None:
    report = replace(_REPORT, unsafe={"numpy.lib": "changes a setting"})
    assert packages_to_deny(report, set()) == {"numpy.lib": "changes a setting"}
    assert packages_to_deny(report, {"numpy.lib"}) == {"numpy": "changes a setting"}
    assert packages_to_deny(report, {"numpy.lib", "numpy"}) == {}


def test_after_many_modules_of_a_package_the_package_is_denied() -> None:
    report = replace(_REPORT, script_reads={"FOO": ("torch.late", "other")})
    reason = "reads FOO, which the script has set or removed before"
    assert packages_to_deny(report, {"torch.a", "torch.b"}) == {"torch.late": reason, "other": reason}
    assert packages_to_deny(report, {"torch.a", "torch.b", "torch.c"}) == {"torch": reason, "other": reason}


_CONDITIONS = StartConditions(("python", "a.py"), "/job", {"HOME": "/root"}, ("LineSink", "LineSink"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"argv": ("python", "b.py")}, "its arguments differ from those of the first worker"),
        ({"cwd": None}, "its working directory differs from that of the first worker"),
        ({"streams": ("FileSink", "LineSink")}, "stdout or stderr is of another kind than in the first worker"),
        ({"descriptors": 1}, "descriptors are passed on to it"),
        (
            {"is_bound": True},
            "it is bound to processors, by which libraries choose their threads when they are imported",
        ),
        ({"environment": {}}, "HOME differs from what the modules were imported with"),
        ({"environment": {"HOME": "/"}}, "HOME differs from what the modules were imported with"),
        ({"environment": {"HOME": "/root", "A": ""}}, "A differs from what the modules were imported with"),
    ],
)
def test_a_start_that_differs_from_the_first_is_cold(change: dict[str, object], reason: str) -> None:
    assert refuse_conditions(_CONDITIONS, replace(_CONDITIONS, **change)) == reason  # type: ignore[arg-type]


def test_a_reason_never_has_the_value_of_a_variable() -> None:
    other = replace(_CONDITIONS, environment={"HOME": "secret"})
    assert "secret" not in refuse_conditions(_CONDITIONS, other)
