"""Imports that keep a function that is watched meanwhile: a worker has the one of Python everywhere.

One script imports a package for each case: each start takes much longer than another package.
"""

from collections.abc import Callable

from tests.integration.warm_start.shown import shown_cold_and_warm
from tests.integration.warm_start.warm_node import WarmNode

Sentences = Callable[[], list[str]]

_KEEPS = {
    "default": ("def find(opener=open):\n    return opener", "{p}.find() is open"),
    "field": (
        "import dataclasses\n@dataclasses.dataclass\nclass Job:\n    pid: object = os.getpid\nkept = Job()",
        "{p}.Job.pid is {p}.Job().pid is {p}.kept.pid is os.getpid, len(pickle.dumps({p}.kept)) > 0",
    ),
    "table": (
        "import threading\nkept = {'a': [os.getpid, (threading.get_native_id, 1)]}",
        "len(pickle.dumps({p}.kept))",
    ),
    "partial": (
        "import functools\nkept = functools.partial(open, mode='r')",
        "pickle.loads(pickle.dumps({p}.kept)).func",
    ),
    "static": ("class Reader:\n    opener = staticmethod(open)\nkept = Reader", "{p}.Reader.opener is open"),
    "seeds": ("import random\ndef find(put=random.setstate): return put", "{p}.find() is random.setstate"),
    "limits": ("import gc\ndef find(get=gc.get_threshold): return get", "{p}.find() is gc.get_threshold"),
    "copied": ("import copy\nkept = copy.copy(os.environ)", "{p}.kept['RANK'], {p}.kept.get('LATER')"),
    "data": (
        "class Kept:\n    data = os.environ._data\n    get = os.environ._data.get",
        "{p}.Kept.data[b'RANK'], {p}.Kept.get(b'RANK'), {p}.Kept.data is os.environ._data",
    ),
    "deep": ("import copy\nkept = copy.deepcopy({'opener': open})", "{p}.kept['opener'] is open"),
    "name": ("import inspect\nkept = open.__name__, str(inspect.signature(open)), str(type(open))", "{p}.kept[:2]"),
}
"""Code of a package, and an expression about it."""


async def test_what_an_import_keeps_is_the_function_of_python(node: WarmNode, sentences: Sentences) -> None:
    for name, (code, _) in _KEEPS.items():
        node.package(f"p_{name}", "import os\n" + code)
    values = ", ".join(f"{name!r}: ({shown.format(p=f'p_{name}')})" for name, (_, shown) in _KEEPS.items())
    script = "import gc, pickle, random\nos.environ['LATER'] = '1'\n"
    imports = f"import decimal, {', '.join(f'p_{name}' for name in _KEEPS)}, fractions\n{script}"
    cold, warm = await shown_cold_and_warm(node, imports, f"{{{values}}}")
    assert warm == cold
    assert sentences() == []


async def test_a_package_that_keeps_it_where_nothing_can_change_is_imported_by_each_worker(
    node: WarmNode, sentences: Sentences
) -> None:
    node.package("keeps", "import functools, os\nfind = functools.lru_cache(os.getpid)")
    cold, warm = await shown_cold_and_warm(node, "import keeps, fractions", "keeps.find.__wrapped__ is os.getpid")
    assert warm == cold
    assert sentences() == ["not preloaded: keeps (keeps a function that is watched during the import)"]
