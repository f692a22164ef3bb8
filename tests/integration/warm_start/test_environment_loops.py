"""Imports that loop over all variables of the environment, or copy it: which of them they have read.

One script imports a package for each case: each start takes much longer than another package.
"""

from collections.abc import Callable, Mapping

import pytest

from tests.integration.warm_start.shown import shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]
_ALL = "reads all variables when it is imported"
_RANK = "reads RANK when it is imported"
_READ_TWO = "reads RANK, ROUND when it is imported"
_HAS_RANK = "'RANK=' + os.environ['RANK'] in {p}.all"
_SHOWN = "'RANK' in {p}.shown and eval({p}.shown[len('environ('):-1])['RANK']"
_DIGEST = """
import zlib
def find():
    return zlib.crc32(repr(sorted(os.environ.items())).encode())
digest = find()
"""
_EXCLUDES = """
import json
def find():
    return json.dumps({f"env/{k}": v for k, v in os.environ.items() if "SECRET" not in k and not k.startswith("AWS_")})
shown = json.loads(find())
"""
_HASHES = """
import hashlib
def find():
    found = hashlib.sha256()
    for name in sorted(os.environ):
        if name != "PWD" and not name.startswith("SSH_"):
            found.update(f"{name}={os.environ[name]};".encode())
    return found.digest()
digest = find()
"""


async def _check(node: WarmNode, cases: Mapping[str, tuple[str, str]], script: str = "") -> None:
    """Check that each case, the code of a package and an expression about it, has the same value cold and warm."""
    for package, (code, _) in cases.items():
        node.package(package, "import os\n" + code)
    values = ", ".join(f"{package!r}: {shown.format(p=package)}" for package, (_, shown) in cases.items())
    imports = f"import decimal\n{script}\nimport {', '.join(cases)}, fractions"
    cold, warm = await shown_cold_and_warm(node, imports, f"{{{values}}}")
    assert [eval(each) for each in warm] == [eval(each) for each in cold]


_MAY_READ = {
    "dict": ("all = dict(os.environ)", "{p}.all['RANK']", _ALL),
    "copied": ("class A:\n    e = os.environ.copy()", "{p}.A.e['RANK']", _ALL),
    "small_letters": ("all = {k.lower(): v for k, v in os.environ.items()}", "{p}.all['rank']", _ALL),
    "values": ("all = list(os.environ.values())", "os.environ['RANK'] in {p}.all", _ALL),
    "shown": ("shown = repr(os.environ)", _SHOWN, _ALL),
    "data": ("all = os.environ._data.copy()", "{p}.all[b'RANK']", _ALL),
    "deep_copy": ("import copy\nall = copy.deepcopy(os.environ._data)", "{p}.all[b'RANK']", _ALL),
    "posix_dict": ("import posix\nall = dict(posix.environ)", "{p}.all[b'RANK']", _ALL),
    "posix_get": ("import posix\nrank = posix.environ.get(b'RANK')", "{p}.rank", _RANK),
    "equal": ("rank = [int(v) for k, v in os.environ.items() if k == 'RANK'][0]", "{p}.rank", _RANK),
    "part": ("shown = [k + v for k, v in os.environ.items() if 'RANK' in k]", "{p}.shown", _RANK),
    "in_copy": ("is_first = dict(os.environ).get('RANK') == '0'", "{p}.is_first", _RANK),
    "in_small": ("rank = {k.lower(): v for k, v in os.environ.items()}['rank']", "{p}.rank", _RANK),
    "any_of": ("found = any(k == 'RANK' and v == '0' for k, v in os.environ.items())", "{p}.found", _RANK),
    "formatted": ("is_first = '{RANK}'.format(**os.environ) == '0'", "{p}.is_first", _RANK),
    "begins": ("first = [v[:1] == '0' for k, v in os.environ.items() if k.startswith('RA')]", "{p}.first", _RANK),
    "ends": ("twice = [2 * int(v) for k, v in os.environ.items() if k.upper().endswith('ANK')]", "{p}.twice", _RANK),
    "slice": ("twice = [2 * int(v) for k, v in os.environ.items() if k[:2] == 'RA']", "{p}.twice", _RANK),
    "digest": (_DIGEST, "{p}.digest == {p}.find()", _ALL),
    "regex": ("import re\nall = [v * 2 for k, v in os.environ.items() if re.match('RANK', k)]", "{p}.all", _ALL),
    "others": ("all = {k: v for k, v in os.environ.items() if not k.startswith('FOO')}", "{p}.all['RANK']", _ALL),
    "names": ("all = [k for k in os.environ if k != 'FOO']", "list(map(str, map(type, {p}.all)))", _ALL),
    "updated": ("words = {'RANK': 'x'}\nwords.update(os.environ)", "{p}.words['RANK']", _RANK),
    "writes": ("os.environ.update(dict(os.environ))", "os.environ['RANK']", _READ_TWO),
    "excludes": (_EXCLUDES, "{p}.shown['env/RANK']", _ALL),
    "hashes": (_HASHES, "{p}.digest == {p}.find()", _ALL),
    "percent": ("all = ['%s=%s' % e for e in os.environ.items() if e[0] != 'FOO']", _HAS_RANK, _ALL),
    "sum": ("all = [k + '=' + v for k, v in os.environ.items() if k != 'FOO']", _HAS_RANK, _ALL),
    "replaces": ("all = {k.replace('R', 'R'): 1 for k in os.environ if k != 'FOO'}", "'RANK' in {p}.all", _ALL),
    "encodes": ("all = str([k.encode() for k in os.environ if k != 'FOO'])", "'RANK' in {p}.all", _ALL),
    "keeps": ("all = [v for k, v in os.environ.items() if k != 'FOO']", "os.environ['RANK'] in {p}.all", _READ_TWO),
    "adds": (
        "all = ['=' + v for k, v in os.environ.items() if k != 'FOO']",
        "'=' + os.environ['RANK'] in {p}.all",
        _READ_TWO,
    ),
    "counts": ("n = sum(int(v) for k, v in os.environ.items() if len(k) == 4 and v in ('0', '1'))", "{p}.n", _RANK),
    "data_values": (
        "n = [int(v) for k, v in os.environ._data.items() if len(k) == 4 and v in (b'0', b'1')]",
        "{p}.n",
        _RANK,
    ),
    "restores": ("old = dict(os.environ)\nos.environ.clear()\nos.environ.update(old)\ndel old", "1", _READ_TWO),
}
"""Code of a package, an expression about it, and the reason against its import ahead."""


async def test_a_package_that_may_have_read_a_variable_of_the_rank_is_not_preloaded(
    node: WarmNode, sentences: Sentences
) -> None:
    await _check(node, {f"p_{name}": (code, shown) for name, (code, shown, _) in _MAY_READ.items()})
    assert sorted(sentences()) == sorted(f"not preloaded: p_{name} ({_MAY_READ[name][2]})" for name in _MAY_READ)


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


_COPY = "environment = dict(os.environ, LC_ALL='C')\n"
_COMMAND = "return subprocess.run(['env'], stdout=subprocess.PIPE, env=environment).stdout"
_READS_NOTHING = {
    "begins": "value = {k[8:].lower(): v for k, v in os.environ.items() if k.startswith('SETTING_')}",
    "in_copy": "value = {k: v for k, v in dict(os.environ).items() if k.startswith('SETTING_')}",
    "proxies": "import urllib.request\nvalue = urllib.request.getproxies()",
    "any_of": "value = any(k.endswith('_SETTING') for k in os.environ)",
    "posix_names": "import posix\nvalue = [k for k in posix.environ if k.startswith(b'SETT') or b'SET' in k]",
    "not_empty": "value = [v for k, v in os.environ.items() if v and k.startswith('SETTING_')]",
    "listed": "value = [v for k, v in os.environ.items() if k in ['SETTING_A', 'SETTING_B']]",
    "child": f"import subprocess\ndef run():\n    {_COPY}    {_COMMAND}\nvalue = len(run()) > 0",
}
"""Loops which show that the package has read no variable of the rank or of the script."""


async def test_a_package_that_looks_for_variables_of_its_own_is_preloaded(node: WarmNode, sentences: Sentences) -> None:
    cases = {f"p_{name}": (code, "{p}.value") for name, code in _READS_NOTHING.items()}
    await _check(node, cases, "os.environ['FOO'] = '1'")
    assert sentences() == []


async def test_a_child_process_that_an_import_starts_with_a_copy_has_real_values(node: WarmNode) -> None:
    node.package("child", f"import os, subprocess\ndef run():\n    {_COPY}    {_COMMAND}\nprint(run().decode())")
    node.script("import decimal\nos.environ['FOO'] = 'of the script'\nimport child, fractions")
    await node.start()
    await node.forked_ahead()
    lines = node.preload.data.decode().split("\n")
    assert {"[preload] RANK=0", "[preload] FOO=of the script"}.issubset(lines)


_SETTINGS = {
    "begins": "value = {k: v for k, v in os.environ.items() if k.startswith('APP_')}",
    "names": "value = [k for k in os.environ if k.startswith('APP_')] and os.environ.get('APP_LEVEL', '')",
    "small": "value = {k.lower(): v for k, v in os.environ.items()}.get('app_level')",
    "in_copy": "value = dict(os.environ).get('APP_LEVEL')",
    "data": "value = [v for k, v in os.environ._data.items() if k == b'APP_LEVEL']",
    "ends": "value = [v for k, v in os.environ.items() if k.lower()[-6:] == '_level']",
    "left_out": "value = [v for k, v in os.environ.items() if len(k) == 9 and k != 'APP_OTHER']",
    "used": "value = [v[:1] for k, v in os.environ.items() if len(k) == 9 and k != 'APP_OTHER']",
    "expanded": "value = os.path.expandvars('${APP_LEVEL}')",
}
_READ = "reads APP_LEVEL, which the script has set or removed before"


@pytest.mark.parametrize("change", ["os.environ['APP_LEVEL'] = 'high'", "del os.environ['APP_LEVEL']"])
async def test_a_loop_finds_a_variable_that_the_script_has_changed(
    node: WarmNode, sentences: Sentences, change: str
) -> None:
    if change.startswith("del"):
        node.env["APP_LEVEL"] = "low"
    regex = "import re\nvalue = [v for k, v in os.environ.items() if re.match('APP_', k)]"
    cases = {f"p_{name}": (code, "{p}.value") for name, code in {**_SETTINGS, "regex": regex}.items()}
    await _check(node, cases, change)
    expected = [f"not preloaded: p_{name} ({_READ})" for name in _SETTINGS]
    assert sorted(sentences()) == sorted([*expected, f"not preloaded: p_regex ({_ALL})"])
