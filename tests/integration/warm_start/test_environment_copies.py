"""Imports that read all variables of the environment: what they keep of it is that of one rank."""

from collections.abc import Callable

import pytest

from tests.integration.warm_start.shown import check_same_in_each_worker, shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]


@pytest.mark.parametrize(
    ("code", "expression", "reason"),
    [
        ("import os\nall = dict(os.environ)", "worker.all['RANK']", "reads RANK, ROUND when it is imported"),
        (
            "import os\nclass A:\n    e = os.environ.copy()",
            "worker.A.e['RANK']",
            "reads RANK, ROUND when it is imported",
        ),
        (
            "import os\nall = {k.lower(): v for k, v in os.environ.items()}",
            "worker.all['rank']",
            "reads RANK, ROUND when it is imported",
        ),
        (
            "import os\nshown = repr(os.environ)",
            "'RANK' in worker.shown and eval(worker.shown[len('environ('):-1])['RANK']",
            "reads RANK, ROUND when it is imported",
        ),
        (
            "import os\nall = os.environ._data.copy()",
            "worker.all[b'RANK']",
            "reads RANK, ROUND when it is imported",
        ),
        ("import posix\nall = dict(posix.environ)", "worker.all[b'RANK']", "reads RANK, ROUND when it is imported"),
        ("import posix\nrank = posix.environ.get(b'RANK')", "worker.rank", "reads RANK when it is imported"),
        (
            "import os\nclass A: pass\na = A()\na.rank = [int(v) for k, v in os.environ.items() if k == 'RANK'][0]",
            "worker.a.rank",
            "reads RANK when it is imported",
        ),
        (
            "import os\nshown = ' '.join(f'{k}={v}' for k, v in os.environ.items() if 'RANK' in k)",
            "worker.shown",
            "reads RANK when it is imported",
        ),
        (
            "import os\ndef find():\n    return dict(os.environ).get('RANK') == '0'\nis_first = find()",
            "worker.is_first",
            "reads RANK when it is imported",
        ),
        (
            "import os\nis_first = {k.lower(): v for k, v in os.environ.items()}['rank'] == '0'",
            "worker.is_first",
            "reads RANK when it is imported",
        ),
        (
            "import os\nis_first = any(k == 'RANK' and v == '0' for k, v in os.environ.items())",
            "worker.is_first",
            "reads RANK when it is imported",
        ),
        (
            "import os\nis_first = '{RANK}'.format(**os.environ) == '0'",
            "worker.is_first",
            "reads RANK when it is imported",
        ),
    ],
)
async def test_a_package_that_keeps_what_it_has_read_is_not_preloaded(
    node: WarmNode, sentences: Sentences, code: str, expression: str, reason: str
) -> None:
    await check_same_in_each_worker(node, code, expression)
    assert sentences() == [f"not preloaded: worker ({reason})"]


async def test_the_variables_that_python_has_found_at_its_start_are_those_of_the_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("keeps", "from posix import environ")
    cold, warm = await shown_cold_and_warm(
        node,
        "import posix, keeps, fractions",
        "posix.environ[b'RANK'], keeps.environ is posix.environ is os.environ._data",
    )
    assert warm == cold
    assert sentences() == []


async def test_a_package_is_found_that_reads_the_environment_by_another_one(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("reader", "import os\ndef read(name):\n    return {k.lower(): v for k, v in os.environ.items()}[name]")
    node.package("settings", "import reader\nrank = int(reader.read('rank'))")
    cold, warm = await shown_cold_and_warm(node, "import reader, settings, fractions", "settings.rank")
    assert warm == cold == ["0", "1"]
    assert sorted(sentences()) == [
        "not preloaded: reader (reads RANK when it is imported)",
        "not preloaded: settings (reads RANK when it is imported)",
    ]


async def test_a_name_that_a_package_keeps_of_a_loop_can_be_pickled(node: WarmNode, sentences: Sentences) -> None:
    node.package("names", "import os\nall = list(os.environ)")
    cold, warm = await shown_cold_and_warm(
        node, "import names, pickle, fractions", "sorted(pickle.loads(pickle.dumps(names.all)))"
    )
    assert warm == cold
    assert sentences() == []


async def test_a_package_that_restores_the_environment_is_preloaded(node: WarmNode, sentences: Sentences) -> None:
    node.package(
        "restores", "import os\nbefore = os.environ.copy()\nos.environ.clear()\nos.environ.update(before)\ndel before"
    )
    cold, warm = await shown_cold_and_warm(node, "import restores, fractions", "os.environ['RANK']")
    assert warm == cold == ["0", "1"]
    assert sentences() == []


async def test_a_package_that_reads_the_environment_and_keeps_only_its_own_part_is_preloaded(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("settings", "import os\nvalue = {k: v for k, v in os.environ.items() if k.startswith('SETTINGS_')}")
    await shown_cold_and_warm(node, "import settings", "len(settings.value)")
    assert sentences() == []


async def test_the_search_asks_no_object_for_its_class(node: WarmNode, sentences: Sentences) -> None:
    """An object may warn, or import something, when it is asked: torch has some for deprecated names."""
    node.package(
        "deprecated",
        "import os\nclass Name:\n    @property\n    def __class__(self):\n        print('asked')\n        return str\n"
        "name = Name()\nnumber = len(list(os.environ.items()))",
    )
    await shown_cold_and_warm(node, "import deprecated, fractions", "deprecated.number")
    assert sentences() == []
    assert b"asked" not in node.preload.data
