"""Variables and contexts of several ranks or nodes count from the first place that any of them has."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.warm_start.merging import ModuleOrder, add_to_profile, merge_contexts
from elasticjob_api.import_profile import ImportProfile

_ORDERS = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(mine=_ORDERS, theirs=_ORDERS, data=st.data(), is_cut_off=st.booleans())
def test_up_to_the_common_module_the_other_worker_has_begun_none_later(
    *, mine: list[str], theirs: list[str], data: st.DataObject, is_cut_off: bool
) -> None:
    place = data.draw(st.integers(0, len(theirs)))
    before, later = theirs[:place], theirs[place:]
    common = ModuleOrder(mine).common(ModuleOrder(theirs), before[-1] if before else "", is_cut_off=is_cut_off)
    count = mine.index(common) + 1 if common else 0
    unsafe = set(mine) - set(before) if is_cut_off else set(later)
    assert unsafe.isdisjoint(mine[:count])
    assert count == len(mine) or mine[count] in unsafe


@given(_ORDERS, st.sampled_from(["", *"abcdefgh"]), st.sampled_from(["", *"abcdefgh"]))
def test_the_earlier_module_comes_first_and_an_unknown_one_is_the_begin(mine: list[str], one: str, other: str) -> None:
    earlier = ModuleOrder(mine).earlier(one, other)
    if one in mine and other in mine:
        assert earlier in {one, other}
        assert mine.index(earlier) == min(mine.index(one), mine.index(other))
    else:
        assert not earlier


def test_of_two_contexts_that_which_excludes_more_counts() -> None:
    one, other = {"a": "call:", "b": ":a", "c": "thread:"}, {"a": "coroutine:", "b": "with:", "d": "beside:e"}
    merged = {"a": "coroutine:", "b": "with:", "c": "thread:", "d": "beside:e"}
    assert merge_contexts(one, other) == merge_contexts(other, one) == merged


def _profile(
    modules: Sequence[str] = "abc",
    variables: dict[str, str] | None = None,
    contexts: dict[str, str] | None = None,
    *,
    known: Sequence[str] = (),
    denied: Sequence[str] = (),
    interpreter: str = "/usr/bin/python3",
) -> ImportProfile:
    return ImportProfile(
        command="sha256:1",
        interpreter=(interpreter, 1),
        modules=dict.fromkeys(modules, "/lib/x.py"),
        folders=(),
        variables={name: (module, "") for name, module in (variables or {}).items()},
        contexts=contexts or {},
        known_variables=tuple(known),
        files={},
        denied=tuple(denied),
        seconds=1.0,
    )


def test_a_profile_gets_the_variables_of_another_node_at_their_first_place() -> None:
    mine = _profile(variables={"FOO": "b", "BAR": "a"}, known=["FOO", "BAR"], denied=["x"])
    theirs = _profile("acb", {"FOO": "c", "BAZ": "b"}, {"c": "thread:"}, known=["BAZ", "LATER"], denied=["y"])
    merged = add_to_profile(mine, theirs)
    assert {name: module for name, (module, _) in merged.variables.items()} == {"FOO": "a", "BAR": "a", "BAZ": "c"}
    assert merged.contexts == {"c": "thread:"}
    assert merged.known_variables == ("BAR", "BAZ", "FOO", "LATER")
    assert merged.denied == ("x", "y")
    assert add_to_profile(merged, theirs) == add_to_profile(merged, mine) == merged


def test_a_node_without_news_adds_nothing_that_it_denies() -> None:
    mine = _profile(variables={"FOO": "b"}, known=["FOO"])
    assert add_to_profile(mine, _profile(variables={"FOO": "b"}, known=["FOO"], denied=["x"])) == mine


def test_a_node_with_another_interpreter_adds_nothing() -> None:
    mine = _profile()
    assert add_to_profile(mine, _profile(variables={"FOO": "b"}, interpreter="/opt/python3")) == mine
