"""A variable that the script sets before an import: the import sees its value in a warm worker, too."""

from collections.abc import Callable

import pytest

from elasticjob_api.import_profile import decode_profile, encode_profile
from testing.waiting import aeventually
from tests.integration.warm_start.shown import shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]
_TRAP = "import os\nvalue = os.environ.get('FOO')"


async def test_a_package_that_reads_a_variable_of_the_script_is_not_preloaded(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("trap", _TRAP)
    cold, warm = await shown_cold_and_warm(
        node, "import decimal\nos.environ['FOO'] = '1'\nimport trap, fractions", "trap.value"
    )
    assert cold == warm == ["1", "1"]
    assert sentences() == ["not preloaded: trap (reads FOO, which the script has set or removed before)"]


async def test_a_package_that_reads_a_variable_which_the_script_removes_is_not_preloaded(node: WarmNode) -> None:
    node.env["FOO"] = "given"
    node.package("trap", _TRAP)
    cold, warm = await shown_cold_and_warm(
        node, "import decimal\ndel os.environ['FOO']\nimport trap, fractions", "trap.value"
    )
    assert cold == warm == ["None", "None"]


_DELETES = """
import os
try:
    {}
    found = True
except KeyError:
    found = False
"""


async def test_a_package_that_removes_a_variable_of_the_script_is_not_preloaded(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("deletes", _DELETES.format("del os.environ['FOO']"))
    node.package("pops", _DELETES.format("os.environ.pop('BAR')"))
    changes = "os.environ['FOO'] = os.environ['BAR'] = '1'"
    imports = f"import decimal\n{changes}\nimport deletes, pops, fractions"
    cold, warm = await shown_cold_and_warm(node, imports, "deletes.found, pops.found")
    assert cold == warm == ["True True", "True True"]
    assert sorted(sentences()) == [
        "not preloaded: deletes (reads FOO, which the script has set or removed before)",
        "not preloaded: pops (reads BAR, which the script has set or removed before)",
    ]


_OVERWRITES = "not preloaded: overwrites (sets FOO, which the script has set or removed before)"


@pytest.mark.parametrize(
    ("after", "more"),
    [
        ("del os.environ['FOO']", []),
        ("os.environ['FOO'] = '2'", []),
        ("import overwrites", [_OVERWRITES]),
        ("import repeats", []),
    ],
    ids=["removed again", "set again", "set again by a package", "set by a package to the same value"],
)
async def test_a_variable_that_the_script_sets_for_one_import_is_one_of_the_script(
    node: WarmNode, sentences: Sentences, after: str, more: list[str]
) -> None:
    node.package("trap", _TRAP)
    node.package("overwrites", "import os\nos.environ['FOO'] = '2'")
    node.package("repeats", "import os\nos.environ['FOO'] = '1'")
    imports = f"import decimal\nos.environ['FOO'] = '1'\nimport trap, fractions\n{after}\nimport wave"
    cold, warm = await shown_cold_and_warm(node, imports, "trap.value, os.environ.get('FOO')")
    assert cold == warm
    assert cold[0].startswith("1 ")
    denied = "not preloaded: trap (reads FOO, which the script has set or removed before)"
    assert sorted(sentences()) == sorted([denied, *more])


@pytest.mark.parametrize(
    "change",
    [
        "os.environ['FOO'] = 'script'",
        "os.environ.pop('FOO', None)",
        "if os.environ['RANK'] == '1': os.environ['FOO'] = 'script'",
    ],
    ids=["set", "removed", "set by one rank"],
)
@pytest.mark.parametrize("overwrite", ["os.environ['FOO'] = 'package'", "os.environ.update(FOO='package')"])
async def test_what_an_import_gives_a_variable_of_the_script_stays(
    node: WarmNode, sentences: Sentences, change: str, overwrite: str
) -> None:
    node.env["FOO"] = "given"
    node.package("overwrites", f"import os\n{overwrite}")
    imports = f"import decimal\n{change}\nimport overwrites, fractions"
    cold, warm = await shown_cold_and_warm(node, imports, "os.environ['FOO']")
    assert cold == warm == ["package", "package"]
    assert sentences() == [_OVERWRITES]


async def test_of_a_package_only_the_module_that_reads_a_variable_of_the_script_is_left_out(
    node: WarmNode, sentences: Sentences
) -> None:
    (node.packages / "large").mkdir()
    (node.packages / "large" / "__init__.py").write_text("")
    (node.packages / "large" / "late.py").write_text(_TRAP)
    (node.packages / "large" / "other.py").write_text("value = 2")
    imports = "import decimal, large\nos.environ['FOO'] = '1'\nimport large.late, large.other, fractions"
    cold, warm = await shown_cold_and_warm(node, imports, "large.late.value, large.other.value")
    assert (cold, warm) == (["1 2"] * 2, ["1 2"] * 2)
    assert sentences() == [
        "not preloaded: large.late (reads FOO, which the script has set or removed before)",
    ]


async def test_a_variable_that_the_script_sets_later_is_no_reason(node: WarmNode, sentences: Sentences) -> None:
    node.package("trap", _TRAP)
    cold, warm = await shown_cold_and_warm(
        node, "import trap, decimal, fractions\nos.environ['FOO'] = '1'\nimport wave", "trap.value"
    )
    assert cold == warm == ["None", "None"]
    assert sentences() == []


async def test_a_variable_that_an_import_sets_is_no_reason(node: WarmNode, sentences: Sentences) -> None:
    node.package("sets", "import os, decimal\nos.environ['FOO'] = '1'\nimport fractions")
    node.package("trap", _TRAP)
    cold, warm = await shown_cold_and_warm(node, "import sets, trap, wave", "trap.value")
    assert cold == warm == ["1", "1"]
    assert sentences() == []


async def test_a_variable_that_an_import_sets_before_it_imports_others_is_no_reason(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("sets", "import os\nos.environ['FOO'] = '1'\nimport trap")
    node.package("trap", _TRAP)
    cold, warm = await shown_cold_and_warm(node, "import sets, wave", "sets.trap.value")
    assert cold == warm == ["1", "1"]
    assert sentences() == []


async def test_a_variable_of_the_script_that_no_import_reads_is_no_reason(node: WarmNode, sentences: Sentences) -> None:
    cold, warm = await shown_cold_and_warm(
        node, "os.environ['FOO'] = '1'\nimport decimal, fractions", "os.environ['FOO']"
    )
    assert cold == warm == ["1", "1"]
    assert sentences() == []


_SENTENCE = "the script or a package sets OMP_NUM_THREADS, which libraries read when loaded; set it in the pod's env"


@pytest.mark.parametrize("later", ["", "import repeats"], ids=["", "a later import sets the same value"])
async def test_a_variable_that_libraries_read_in_c_is_a_reason(
    node: WarmNode, sentences: Sentences, later: str
) -> None:
    change = "os.environ['OMP_NUM_THREADS'] = '1'"
    node.package("repeats", f"import os\n{change}")
    node.script(f"{change}\nimport decimal, fractions\n{later}\nprint('shown', flush=True)")
    await node.start()
    await node.ran()
    await aeventually(lambda: node.starter._reasons.refusal, what="a refusal")
    assert await node.restart() == [False, False]
    await node.ran()
    assert sentences() == [f"not warm: {_SENTENCE}"]


def _denied_package_that_sets(name: str) -> str:
    return f"import os, random\nos.environ.setdefault({name!r}, '1')\nrandom.random()"


@pytest.mark.parametrize(
    "name",
    [
        *("TF_CPP_MIN_LOG_LEVEL", "TORCH_CPP_LOG_LEVEL", "KINETO_LOG_LEVEL"),
        *("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"),
    ],
)
async def test_a_variable_without_results_that_a_package_sets_is_no_reason_though_each_worker_imports_it(
    node: WarmNode, sentences: Sentences, name: str
) -> None:
    node.package("trap", _denied_package_that_sets(name))
    cold, warm = await shown_cold_and_warm(node, "import decimal, trap, fractions", f"os.environ[{name!r}]")
    assert cold == warm == ["1", "1"]
    (sentence,) = sentences()
    assert sentence.startswith("not preloaded: trap (")
    assert node.starter._zygote.ready
    assert node.starter._zygote.ready.profile.variables == {}


async def test_another_variable_that_such_a_package_sets_is_a_reason(node: WarmNode, sentences: Sentences) -> None:
    node.package("trap", _denied_package_that_sets("OMP_NUM_THREADS"))
    node.script("import decimal, trap, fractions\nprint('shown', flush=True)")
    await node.start()
    await node.ran()
    await aeventually(lambda: node.starter._reasons.refusal, what="a refusal")
    assert sentences()[-1] == f"not warm: {_SENTENCE}"


async def test_another_pod_imports_no_package_that_reads_a_variable_of_the_script(node: WarmNode) -> None:
    node.package("trap", _TRAP)
    node.script("import decimal\nos.environ['FOO'] = 'a secret'\nimport trap, fractions\nprint('shown', flush=True)")
    await node.start()
    await node.ran()
    await node.forked_ahead()
    assert node.starter._zygote.ready
    profile = node.starter._zygote.ready.profile
    assert profile.denied == ("debugpy", "horovod", "mpi4py", "pydevd", "trap")
    assert {name: value for name, (_, value) in profile.variables.items()} == {"FOO": ""}
    data = encode_profile(profile)
    assert data is not None
    decoded = decode_profile(data)
    assert decoded is not None
    assert decoded.variables == profile.variables
