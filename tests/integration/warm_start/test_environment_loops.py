"""Imports that loop over all variables of the environment, or copy it: which of them they have read."""

from collections.abc import Callable

import pytest

from tests.integration.warm_start.shown import check_same_in_each_worker, shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]


_ALL = "reads all variables when it is imported"
_RANK = "reads RANK when it is imported"


_DIGEST = """
import os, zlib
def find():
    return zlib.crc32(repr(sorted(os.environ.items())).encode())
digest = find()
"""


@pytest.mark.parametrize(
    ("code", "expression", "reason"),
    [
        ("import os\nall = dict(os.environ)", "worker.all['RANK']", _ALL),
        ("import os\nclass A:\n    e = os.environ.copy()", "worker.A.e['RANK']", _ALL),
        ("import os\nall = {k.lower(): v for k, v in os.environ.items()}", "worker.all['rank']", _ALL),
        ("import os\nall = list(os.environ.values())", "os.environ['RANK'] in worker.all", _ALL),
        (
            "import os\nshown = repr(os.environ)",
            "'RANK' in worker.shown and eval(worker.shown[len('environ('):-1])['RANK']",
            _ALL,
        ),
        ("import os\nall = os.environ._data.copy()", "worker.all[b'RANK']", _ALL),
        ("import copy, os\nall = copy.deepcopy(os.environ._data)", "worker.all[b'RANK']", _ALL),
        ("import posix\nall = dict(posix.environ)", "worker.all[b'RANK']", _ALL),
        ("import posix\nrank = posix.environ.get(b'RANK')", "worker.rank", _RANK),
        (
            "import os\nclass A: pass\na = A()\na.rank = [int(v) for k, v in os.environ.items() if k == 'RANK'][0]",
            "worker.a.rank",
            _RANK,
        ),
        (
            "import os\nshown = ' '.join(f'{k}={v}' for k, v in os.environ.items() if 'RANK' in k)",
            "worker.shown",
            _RANK,
        ),
        (
            "import os\ndef find():\n    return dict(os.environ).get('RANK') == '0'\nis_first = find()",
            "worker.is_first",
            _RANK,
        ),
        (
            "import os\nis_first = {k.lower(): v for k, v in os.environ.items()}['rank'] == '0'",
            "worker.is_first",
            _RANK,
        ),
        (
            "import os\nis_first = any(k == 'RANK' and v == '0' for k, v in os.environ.items())",
            "worker.is_first",
            _RANK,
        ),
        ("import os\nis_first = '{RANK}'.format(**os.environ) == '0'", "worker.is_first", _RANK),
        (
            "import os\nfirst = [v.startswith('0') for k, v in os.environ.items() if k.startswith('RA')]",
            "worker.first",
            _RANK,
        ),
        (
            "import os\ntwice = [int(v) * 2 for k, v in os.environ.items() if k.upper().endswith('ANK')]",
            "worker.twice",
            _RANK,
        ),
        ("import os\ntwice = [int(v) * 2 for k, v in os.environ.items() if k[:2] == 'RA']", "worker.twice", _RANK),
        (_DIGEST, "worker.digest == worker.find()", _ALL),
        (
            "import os, re\nfound = [int(v) * 2 for k, v in os.environ.items() if re.match('RANK', k)]",
            "worker.found",
            _ALL,
        ),
        (
            "import os\nall = {k: v for k, v in os.environ.items() if not k.startswith('FOO')}",
            "worker.all['RANK']",
            _ALL,
        ),
        (
            "import os\nos.environ.update(dict(os.environ))",
            "os.environ['RANK']",
            "reads RANK, ROUND when it is imported",
        ),
        ("import os\nwords = {'RANK': 'x'}\nwords.update(os.environ)", "worker.words['RANK']", _RANK),
        (
            "import os\nsaved = dict(os.environ)\nos.environ.clear()\nos.environ.update(saved)\ndel saved",
            "1",
            "reads RANK, ROUND when it is imported",
        ),
    ],
)
async def test_a_package_that_may_have_read_a_variable_of_the_rank_is_not_preloaded(
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
    assert sorted(sentences()) == [f"not preloaded: reader ({_RANK})", "not preloaded: settings (imports reader)"]


async def test_names_that_a_package_keeps_of_a_loop_are_texts(node: WarmNode, sentences: Sentences) -> None:
    node.package("names", "import os\nall = [name for name in os.environ if name != 'FOO']")
    cold, warm = await shown_cold_and_warm(node, "import names, fractions", "{type(each) for each in names.all}")
    assert warm == cold
    assert sentences() == [f"not preloaded: names ({_ALL})"]


_COPY = "environment = dict(os.environ, LC_ALL='C')\n"
_COMMAND = "return subprocess.run(['env'], stdout=subprocess.PIPE, env=environment).stdout"
_READS_NOTHING = {
    "a prefix": "value = {k[9:].lower(): v for k, v in os.environ.items() if k.startswith('SETTINGS_')}",
    "a prefix of a copy": "value = {k: v for k, v in dict(os.environ).items() if k.startswith('SETTINGS_')}",
    "proxies": "import urllib.request\nvalue = urllib.request.getproxies()",
    "any": "value = any(k.endswith('_SETTINGS') for k in os.environ)",
    "the system's names": "import posix\nvalue = [k for k in posix.environ if k.startswith(b'SETT') or b'SET' in k]",
    "a list of names": "value = [v for k, v in os.environ.items() if k in ['SETTINGS_A', 'SETTINGS_B']]",
    "a child process": f"import subprocess\ndef run():\n    {_COPY}    {_COMMAND}\nvalue = len(run()) > 0",
}
"""Loops which show that the package has read no variable of the rank or of the script."""


@pytest.mark.parametrize("code", _READS_NOTHING.values(), ids=_READS_NOTHING)
async def test_a_package_that_looks_for_variables_of_its_own_is_preloaded(
    node: WarmNode, sentences: Sentences, code: str
) -> None:
    node.package("settings", "import os\n" + code)
    script = "import decimal\nos.environ['FOO'] = '1'\nimport settings, fractions"
    cold, warm = await shown_cold_and_warm(node, script, "settings.value, os.environ['FOO']")
    assert warm == cold
    assert sentences() == []


async def test_a_child_process_that_an_import_starts_with_a_copy_has_real_values(node: WarmNode) -> None:
    node.package("child", f"import os, subprocess\ndef run():\n    {_COPY}    {_COMMAND}\nprint(run().decode())")
    node.script("import decimal\nos.environ['FOO'] = 'of the script'\nimport child, fractions")
    await node.start()
    await node.forked_ahead()
    lines = node.preload.data.decode().split("\n")
    assert {"[preload] RANK=0", "[preload] FOO=of the script"}.issubset(lines)


_SETTINGS = {
    "a prefix": "value = {k: v for k, v in os.environ.items() if k.startswith('APP_')}",
    "names alone": "value = [k for k in os.environ if k.startswith('APP_')] and os.environ.get('APP_LEVEL', '')",
    "small letters": "value = {k.lower(): v for k, v in os.environ.items()}.get('app_level')",
    "a copy": "value = dict(os.environ).get('APP_LEVEL')",
    "the system's names": "value = [v for k, v in os.environ._data.items() if k == b'APP_LEVEL']",
    "the last letters": "value = [v for k, v in os.environ.items() if k.lower()[-6:] == '_level']",
    "a function of another module": "import settings_reader\nvalue = settings_reader.read('APP_')",
}
_READ = "reads APP_LEVEL, which the script has set or removed before"


@pytest.mark.parametrize("change", ["os.environ['APP_LEVEL'] = 'high'", "del os.environ['APP_LEVEL']"])
@pytest.mark.parametrize("code", _SETTINGS.values(), ids=_SETTINGS)
async def test_a_loop_finds_a_variable_that_the_script_has_changed(
    node: WarmNode, sentences: Sentences, code: str, change: str
) -> None:
    if change.startswith("del"):
        node.env["APP_LEVEL"] = "low"
    node.package(
        "settings_reader", "import os\ndef read(begin):\n    return {k: v for k, v in os.environ.items() if begin in k}"
    )
    node.package("settings", "import os\n" + code)
    cold, warm = await shown_cold_and_warm(
        node, f"import decimal\n{change}\nimport settings, fractions", "settings.value"
    )
    assert warm == cold
    package = "settings_reader" if "settings_reader" in code else "settings"
    assert sentences()[0] == f"not preloaded: {package} ({_READ})"


async def test_a_loop_that_reads_all_finds_a_variable_that_the_script_has_set(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("settings", "import os, re\nvalue = [v for k, v in os.environ.items() if re.match('APP_', k)]")
    script = "import decimal\nos.environ['APP_LEVEL'] = 'high'\nimport settings, fractions"
    cold, warm = await shown_cold_and_warm(node, script, "settings.value")
    assert warm == cold == ["['high']", "['high']"]
    assert sentences() == [f"not preloaded: settings ({_ALL})"]


async def test_a_package_that_calls_a_function_of_python_is_named(node: WarmNode, sentences: Sentences) -> None:
    node.package("settings", "import os\nvalue = os.path.expandvars('${APP_LEVEL}')")
    script = "import decimal\nos.environ['APP_LEVEL'] = 'high'\nimport settings, fractions"
    cold, warm = await shown_cold_and_warm(node, script, "settings.value")
    assert warm == cold == ["high", "high"]
    assert sentences() == [f"not preloaded: settings ({_READ})"]
