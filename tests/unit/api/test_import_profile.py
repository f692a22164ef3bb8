"""Import profiles: what one node writes, another one reads; any other bytes are none."""

import json
import random
import tracemalloc
import zlib
from dataclasses import replace

import pytest

from elasticjob_api.constants import IMPORT_PROFILE_BYTES
from elasticjob_api.import_profile import ImportProfile, command_digest, decode_profile, encode_profile

PROFILE = ImportProfile(
    command=command_digest(["python", "train.py", "\udcff"]),
    interpreter=("/usr/bin/python3.11", 5),
    modules={"torch": "/usr/lib/python3/torch/__init__.py", "é": "", "é.part": "/usr/lib/python3/torch/__init__.py"},
    folders=("/opt/\udcff",),
    variables={"FOO": ("torch", "")},
    given_variables=("FOO",),
    known_variables=("FOO", "HF_HOME"),
    contexts={"é": "with:", "é.part": ":torch._dynamo", "torch": "call:é"},
    files={"/usr/lib/python3/torch/__init__.py": 1_700_000_000_123_456_789},
    denied=("mpi4py",),
    seconds=3.5,
)


_TEXT = zlib.decompress(encode_profile(PROFILE) or b"")
_VALUE = json.loads(_TEXT)


def test_a_profile_can_be_read_again() -> None:
    data = encode_profile(PROFILE)
    assert data is not None
    assert decode_profile(data) == PROFILE


def test_a_newer_writer_may_add_fields() -> None:
    data = encode_profile(PROFILE)
    assert data is not None
    value = {**json.loads(zlib.decompress(data)), "new": [1]}
    assert decode_profile(zlib.compress(json.dumps(value).encode())) == PROFILE


@pytest.mark.parametrize("missing", ["contexts", "given_variables", "known_variables"])
def test_a_profile_of_an_older_writer_is_none(missing: str) -> None:
    """Nothing shows then that its imports had no context, and which variables other ranks than the first one set."""
    value = {name: each for name, each in _VALUE.items() if name != missing}
    assert decode_profile(zlib.compress(json.dumps(value).encode())) is None


@pytest.mark.parametrize("text", ["", "with", "other:", "with:a b", "with:../a", "with::"])
def test_a_text_that_is_no_context_is_in_no_profile(text: str) -> None:
    assert decode_profile(zlib.compress(json.dumps({**_VALUE, "contexts": {"torch": text}}).encode())) is None


def test_a_variable_that_cannot_be_shown_is_in_no_profile() -> None:
    data = encode_profile(replace(PROFILE, known_variables=("FOO", "A\nB", "\udcff", "x" * 301)))
    assert data is not None
    found = decode_profile(data)
    assert found is not None
    assert found.known_variables == ("FOO",)


@pytest.mark.parametrize("names", [["A\nB"], [1], "FOO", ["x" * 301], ["X"] * 10_001, None])
def test_names_that_are_no_variables_are_in_no_profile(names: object) -> None:
    assert decode_profile(zlib.compress(json.dumps({**_VALUE, "known_variables": names}).encode())) is None


def test_names_that_are_no_modules_are_left_out() -> None:
    modules = {"torch.nn": "a", "../torch": "a", "": "a", "a b": "a", "x" * 301: "a"}
    data = encode_profile(replace(PROFILE, modules=modules, files={"a": 1}))
    assert data is not None
    found = decode_profile(data)
    assert found is not None
    assert found.modules == {"torch.nn": "a"}


def test_a_module_without_a_file_counts_as_the_package_of_another_alone() -> None:
    modules = {
        "google": "",
        "google.rpc": "/a.py",
        "_ctypes": "built-in",
        "zipimport": "frozen",
        "nvidia": "",
        "b": "/b.py",
    }
    data = encode_profile(replace(PROFILE, modules=modules, files={"/a.py": 1}))
    assert data is not None
    found = decode_profile(data)
    assert found is not None
    assert found.modules == {"google": "", "google.rpc": "/a.py"}


def test_a_profile_that_is_too_large_is_not_written() -> None:
    dice = random.Random(0)
    modules = {f"m{number}": dice.randbytes(40).hex() for number in range(5000)}
    large = ImportProfile(
        command="", interpreter=("", 0), modules=modules, folders=(), files={}, denied=(), seconds=1.0
    )
    assert encode_profile(large) is None


def test_long_names_take_little_memory() -> None:
    # Each name is one of 150 nested packages. A non-BMP letter makes each character take four bytes.
    modules = {f"\U0001d4d0.a{number}" + ".a" * 145: "" for number in range(1000)}
    value = {**_VALUE, "modules": modules, "files": {"": 0}}
    data = zlib.compress(json.dumps(value).encode())
    tracemalloc.start()
    found = decode_profile(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert found.modules == modules
    assert peak < 10 << 20


@pytest.mark.parametrize("name", ["LD_\n2026-01-01 forged", "OMP_\x1b[31m", "A\u2028B"])
def test_a_variable_whose_name_would_change_a_log_is_in_no_profile(name: str) -> None:
    assert decode_profile(zlib.compress(json.dumps({**_VALUE, "variables": {name: ""}}).encode())) is None


def test_a_profile_has_no_argument_of_the_command() -> None:
    data = encode_profile(replace(PROFILE, command=command_digest(["python", "train.py", "--token", "secret"])))
    assert data is not None
    assert b"secret" not in zlib.decompress(data)


def test_an_older_reader_takes_it_for_that_of_another_command() -> None:
    assert _VALUE["argv"] == [command_digest(["python", "train.py", "\udcff"])]


def test_a_profile_of_very_many_modules_can_be_read() -> None:
    modules = {f"package.part_{number}": f"/usr/lib/python3/package/part_{number}.py" for number in range(12_000)}
    data = encode_profile(replace(PROFILE, modules=modules, files=dict.fromkeys(modules.values(), 5)))
    assert data is not None
    found = decode_profile(data)
    assert found is not None
    assert found.modules == modules


def _packed(value: object) -> bytes:
    return zlib.compress(json.dumps(value).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nothing",
        zlib.compress(b"{}"),
        _packed([]),
        _packed({**_VALUE, "v": 2}),
        _packed({**_VALUE, "modules": []}),
        _packed({**_VALUE, "modules": {"torch": {"nested": 1}}}),
        _packed({**_VALUE, "modules": {"torch": "x" * 4097}}),
        _packed({**_VALUE, "modules": {f"m{number}": "" for number in range(20_001)}}),
        _packed({**_VALUE, "argv": "python train.py"}),
        _packed({**_VALUE, "argv": ["python\0train.py"]}),
        _packed({**_VALUE, "interpreter": ["/usr/bin/python3"]}),
        _packed({**_VALUE, "interpreter": [["/usr/bin/python3"], 5]}),
        _packed({**_VALUE, "folders": 3}),
        _packed({**_VALUE, "folders": [""] * 1001}),
        _packed({**_VALUE, "denied": [[]]}),
        _packed({**_VALUE, "files": {"a": 1 << 64}}),
        _packed({**_VALUE, "seconds": "3"}),
        _packed({**_VALUE, "new": [0] * 100_001}),
        _packed({**_VALUE, "new": [[]] * 1001}),
        _packed({**_VALUE, "files": {"a": "b"}}),
        _packed({**_VALUE, "files": {"/a\ud800": 1}}),
        _packed({**_VALUE, "files": {"/a\0": 1}}),
        _packed({**_VALUE, "files": {"/" + "a" * 5000: 1}}),
        _packed({**_VALUE, "folders": ["/a\ud800"]}),
        _packed({**_VALUE, "files": {"\ud800": 1}, "modules": {"a": "\ud800"}}),
        zlib.compress(_TEXT.replace(b"1700000000123456789", b"9" * 5000)),
        zlib.compress(_TEXT.replace(b"1700000000123456789", b"[" * 5000)),
        zlib.compress(_TEXT.replace(b"3.5", b"1e999")),
        zlib.compress(_TEXT.replace(b"3.5", b"NaN")),
        zlib.compress(_TEXT.replace(b"3.5", b"-1")),
        zlib.compress(_TEXT.replace(b"1700000000123456789", b"1e999")),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b" " * (1 << 25)),
        zlib.compress(_TEXT)[:-1],
        zlib.compress(_TEXT) + b"more",
        b"x" * (IMPORT_PROFILE_BYTES + 1),
    ],
)
def test_other_bytes_are_no_profile(data: bytes) -> None:
    assert decode_profile(data) is None
