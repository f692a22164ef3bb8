"""The places of a `with` block in the byte code of each Python."""

import json
import subprocess
from pathlib import Path

import pytest

from elasticjob_agent.warm_start import injection
from testing.pythons import need_python

_CODE = """
import contextlib, json, opcode, sys
sys.path.insert(0, sys.argv[1])
from elasticjob_warm_start import with_blocks

place = contextlib.suppress(KeyError)
found = {}

def see(name):
    frame = sys._getframe(1)
    found[name] = with_blocks.WithBlockCache().has(frame.f_code, frame.f_lasti)

def usual():
    see("out before")
    with place:
        see("in body")
        try:
            see("in try")
            1 / 0
        except ZeroDivisionError:
            see("in handler")
        finally:
            see("in finally")
        for _ in range(2):
            see("in loop")
            if _:
                continue
        [see("in list") for _ in "a"] if sys.version_info >= (3, 12) else found.update({"in list": True})
        with place:
            raise KeyError
        see("in after inner")
    see("out after")
    try:
        with place:
            raise ValueError
    except ValueError:
        see("out handler")
    finally:
        see("out finally")
    while True:
        with place:
            break
    see("out after break")

def returns():
    with place:
        return see("in return")

def after_try():
    with place:
        try:
            1 / 0
        except ZeroDivisionError:
            pass
    see("out after try")

def error():
    with place:
        try:
            raise KeyError
        finally:
            see("in finally of error")
    see("out after error")

def generator():
    with place:
        yield see("in generator")
    yield see("out generator")

class Block:
    def __enter__(self):
        found["out enter"] = is_caller_in_with()
    def __exit__(self, *error):
        return None

def is_caller_in_with():
    frame = sys._getframe(2)
    return with_blocks.WithBlockCache().has(frame.f_code, frame.f_lasti)

def enters():
    with Block():
        see("in after enter")

async def asynchronous():
    see("out coroutine")
    async with Asynchronous():
        see("in async block")
        with place:
            pass
        see("in async after inner")
    see("out after async block")

class Asynchronous:
    async def __aenter__(self):
        return None
    async def __aexit__(self, *error):
        return None

usual(); returns(); after_try(); error(); list(generator()); enters()
try:
    asynchronous().send(None)
except StopIteration:
    pass

long = "def long():\\n see('out long before')\\n with place:\\n" + "  x = [1, 2, 3]\\n" * 30000
long += "  see('in long')\\n" + "  x = [1, 2, 3]\\n" * 30000 + " see('out long after')\\nlong()"
exec(long)
names = ("SETUP_WITH", "SETUP_ASYNC_WITH", "EXTENDED_ARG")
if sys.version_info >= (3, 11):
    names = ("PUSH_EXC_INFO", "WITH_EXCEPT_START")
numbers = {name: (getattr(with_blocks, name), opcode.opmap[name]) for name in names}
print(json.dumps([found, numbers]))
"""


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
def test_a_place_is_inside_a_block_or_not(version: str, tmp_path: Path) -> None:
    path = tmp_path / "show.py"
    path.write_text(_CODE)
    argv = [need_python(version), str(path), str(injection._SITE_FOLDER.parent)]
    found, numbers = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)
    assert {name: found[name] for name in found if found[name] != name.startswith("in ")} == {}
    assert len(found) == 27
    assert {name: ours for name, (ours, theirs) in numbers.items() if ours != theirs} == {}
