"""A name or a value that a loop over all variables gets while the zygote imports records each use of it."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from elasticjob_agent.user_python.warm_start.elasticjob_warm_start import entry
from elasticjob_agent.user_python.warm_start.elasticjob_warm_start.environment import _parse_value
from elasticjob_agent.user_python.warm_start.elasticjob_warm_start.listed_names import (
    ListedName,
    ListedText,
    NameRecord,
    NameState,
)
from elasticjob_agent.user_python.warm_start.elasticjob_warm_start.listed_values import ListedValue, ListedValueText


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> NameState:
    # The modules are below elasticjob_agent here, and so are not known as those of the warm start.
    monkeypatch.setattr(entry, "__name__", "elasticjob_agent.entry")
    return NameState(NameRecord(b"NAME", lambda _variable, _package: None))


def _value(state: NameState) -> str:
    return ListedValue.of(b"12", state).decode()  # type: ignore[no-any-return]


def _evaluate(expression: str, text: str) -> Any:
    """Return what this code of the package `lib` makes of the text."""
    return eval(expression, {"__name__": "lib", "os": os, "t": text})


_METHODS = (
    *(
        "t.capitalize()",
        "t.casefold()",
        "t.center(9)",
        "t.count('1')",
        "t.encode()",
        "t.endswith('2')",
        "t.expandtabs()",
    ),
    *("t.find('2')", "t.format()", "t.format_map({})", "t.index('2')", "t.isalnum()", "t.isalpha()", "t.isascii()"),
    *("t.isdecimal()", "t.isdigit()", "t.isidentifier()", "t.islower()", "t.isnumeric()", "t.isprintable()"),
    *("t.isspace()", "t.istitle()", "t.isupper()", "t.join('ab')", "t.ljust(9)", "t.lower()", "t.lstrip()"),
    *("t.partition('1')", "t.removeprefix('1')", "t.removesuffix('2')", "t.replace('1', '3')", "t.rfind('1')"),
    *("t.rindex('1')", "t.rjust(9)", "t.rpartition('1')", "t.rsplit('1')", "t.rstrip()", "t.split('1')"),
    *("t.splitlines()", "t.startswith('1')", "t.strip()", "t.swapcase()", "t.title()", "t.translate({})", "t.upper()"),
    "t.zfill(9)",
)
_OPERATORS = (
    *(
        "str(t)",
        "repr(t)",
        "list(t)",
        "f'{t}'",
        "f'{t:>9}'",
        "f'{t!r}'",
        "'{}'.format(t)",
        "'%s' % t",
        "'%s=%s' % (t, 1)",
    ),
    *("'a' + t", "t + 'a'", "t * 2", "2 * t", "t % ()", "os.fsencode(t)", "[*t]", "set(t)"),
)
_COMPARISONS = (
    *("t == '1'", "'1' == t", "t != '1'", "t < '2'", "t >= '2'", "t in ('1', '2')", "'1' in t", "t in {'1'}"),
    *("len(t)", "t[0]", "t[-1:]", "hash(t) == 1", "sorted([t, t])", "[k for k in {t: 1}]"),
)


def test_the_table_has_all_methods() -> None:
    assert {method.partition("(")[0][2:] for method in _METHODS} == {
        name for name in dir(str) if name[0] != "_" and name != "maketrans"
    }


@pytest.mark.parametrize("use", [*_METHODS, *_OPERATORS, *_COMPARISONS, "int(t)", "float(t)"])
def test_each_use_of_a_value_is_noted(state: NameState, use: str) -> None:
    assert _evaluate(use, _value(state)) == _evaluate(use, "12")
    assert "lib" in state.record.value_users  # to compare the result may be another use


def test_a_value_that_is_asked_whether_it_is_empty_is_not_used(state: NameState) -> None:
    assert _evaluate("1 if t else 0", _value(state))
    assert not _evaluate("1 if t else 0", ListedValueText.of("", state))
    assert state.record.value_readers("lib") == set()


def test_a_value_for_a_child_process_is_not_used(state: NameState) -> None:
    environment = {"PATH": os.environ["PATH"], "A": _value(state)}
    code = "import os; print(os.environ['A'])"
    out = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True).stdout
    assert out == b"12\n"
    assert state.record.value_users == set()


def test_a_value_that_is_kept_is_read_by_the_package_of_the_loop(state: NameState) -> None:
    state.note(is_hit=False)
    kept = [_value(state)]
    assert state.record.value_readers("lib") == {"lib"}
    kept.clear()
    assert state.record.value_readers("lib") == set()


def test_a_use_after_a_true_comparison_is_no_other_read(state: NameState) -> None:
    state.note(is_hit=True)
    name: str = ListedName.of(b"NAME", state).decode()
    assert f"{name}={_value(state)}" == "NAME=12"
    del name
    assert not state.record.may_be_read
    assert state.record.value_readers("lib") == set()


_OF_NAMES = [use for use in _METHODS if not use.startswith(("t.lower", "t.upper", "t.startswith", "t.endswith"))]


@pytest.mark.parametrize("use", [*_OF_NAMES, *_OPERATORS])
def test_another_use_of_a_name_than_a_comparison_may_read_all(state: NameState, use: str) -> None:
    name = ListedText.of("NA12", state)
    assert not name.startswith("OTHER")
    assert _evaluate(use, name) == _evaluate(use, "NA12")
    del name
    assert state.record.may_be_read


@pytest.mark.parametrize("use", [*_COMPARISONS, "t[:2].lower() == 'a'", "t.upper().endswith('_A')", "{t: 1} == {}"])
def test_a_comparison_of_a_name_and_its_parts_is_no_use(state: NameState, use: str) -> None:
    name = ListedText.of("NAME", state)
    assert name != "OTHER"
    assert _evaluate(use, name) == _evaluate(use, "NAME")
    del name
    assert not state.record.may_be_read


@pytest.mark.parametrize("text", ["None", "1", "[" * 10_000, "b'a', 1", "b'a" + "(" * 10_000, "b'a', " + "(" * 10_000])
def test_a_text_that_is_no_value_is_none(text: str) -> None:
    assert _parse_value(text) is None


def test_a_value_is_parsed() -> None:
    values = [b"", b"a", b"it's", b"\xff\0"]
    assert [_parse_value(ascii(value)) for value in values] == values


def test_c_code_reads_a_value_unseen(state: NameState) -> None:
    assert json.dumps([_value(state)]) == '["12"]'
    assert state.record.value_users == set()
