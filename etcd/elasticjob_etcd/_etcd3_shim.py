"""Lets etcd3 0.12.0 import under any protobuf from 4.25 to 7, at run time, with nothing vendored.

etcd3's generated `*_pb2.py` files do not run on protobuf 4 or later. Only one bytes literal of each is needed: the
serialized descriptor. `load` reads those literals from the installed package and builds the messages in a *private*
DescriptorPool. The default pool, which user code may fill with another `kv.proto`, remains untouched. Modules of the
same names go into `sys.modules`; etcd3's own gRPC stubs then work unchanged. It must run before the first `import
etcd3`. It starts no thread and sets no environment variable. Sound because etcd3 0.12.0 is its last release and pinned
exactly.
"""

import ast
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from google.protobuf.internal import api_implementation, enum_type_wrapper

from elasticjob_etcd import silent_grpc as _silent_grpc  # noqa: F401  # before the stubs import gRPC

_PACKAGE = "etcd3.etcdrpc"
_FILES = ("kv", "auth", "rpc")  # in the order of their imports
_MARK = "__elasticjob_pool__"
_PURE_PYTHON = "google.protobuf.internal.python_message"


def _import_factories() -> tuple[Any, Any]:
    """Return the pool and the message factory, without protobuf's pure-Python messages.

    With protobuf's C library they are unused, and cost 6 ms and a megabyte. A later import gets them.
    """
    left_out = api_implementation.Type() != "python" and _PURE_PYTHON not in sys.modules
    if left_out:
        sys.modules[_PURE_PYTHON] = ModuleType(_PURE_PYTHON)
    try:
        from google.protobuf import descriptor_pool, message_factory  # noqa: PLC0415  # after the placeholder
    finally:
        if left_out:
            del sys.modules[_PURE_PYTHON]
    return descriptor_pool, message_factory


descriptor_pool, message_factory = _import_factories()
_LITERAL = re.compile(r"^ *serialized_pb=_b\((?P<literal>'.*')\)$", re.MULTILINE)


def load() -> Any:
    """Import `etcd3.etcdrpc`, its messages and stubs, and return it; idempotent.

    Raises ImportError when etcd3 is missing, is not 0.12.0, or was imported before without this shim.
    """
    if not hasattr(sys.modules.get(f"{_PACKAGE}.rpc_pb2"), _MARK):
        _require_not_imported()
        folder = _package_folder()
        _install(folder / "etcdrpc")
        _import_stubs(folder)
    return sys.modules[_PACKAGE]


def _require_not_imported() -> None:
    if any(name == "etcd3" or name.startswith("etcd3.") for name in sys.modules):
        message = "etcd3 was imported before elasticjob_etcd; import elasticjob_etcd.client first"
        raise ImportError(message, name="etcd3")


def _package_folder() -> Path:
    # find_spec finds a top-level package without running it
    spec = importlib.util.find_spec("etcd3")
    if spec is None or spec.origin is None:
        raise ImportError("etcd3 is not installed; pip install etcd3==0.12.0", name="etcd3")
    return Path(spec.origin).parent


def _install(folder: Path) -> None:
    pool = descriptor_pool.DescriptorPool()
    modules = {f"{_PACKAGE}.{file}_pb2": _build(pool, folder / f"{file}_pb2.py") for file in _FILES}
    sys.modules.update(modules)  # only once all three could be built


def _import_stubs(folder: Path) -> None:
    # etcd3/__init__.py would import its own client, locks and tenacity: a fifth of the whole import, unused here.
    # A bare parent module replaces it during this import. A later `import etcd3` runs the real one.
    parent = ModuleType("etcd3")
    parent.__path__ = [str(folder)]
    sys.modules["etcd3"] = parent
    try:
        importlib.import_module(_PACKAGE)
    finally:
        del sys.modules["etcd3"]


def _build(pool: Any, source: Path) -> ModuleType:
    pool.AddSerializedFile(_serialized(source))
    descriptor = pool.FindFileByName(f"{source.stem.removesuffix('_pb2')}.proto")
    module = ModuleType(f"{_PACKAGE}.{source.stem}")
    setattr(module, _MARK, pool)
    module.DESCRIPTOR = descriptor  # type: ignore[attr-defined]
    for name, message in descriptor.message_types_by_name.items():
        setattr(module, name, message_factory.GetMessageClass(message))
    for name, enum in descriptor.enum_types_by_name.items():
        setattr(module, name, enum_type_wrapper.EnumTypeWrapper(enum))
        for value in enum.values:
            setattr(module, value.name, value.number)
    return module


def _serialized(source: Path) -> bytes:
    # Parsing all of rpc_pb2.py with ast takes 30 ms and more; a search for the one line needed takes almost none.
    found = _LITERAL.search(source.read_text(encoding="utf-8")) if source.is_file() else None
    if found is None:
        message = f"{source} has no descriptor of the expected form; etcd3 must be exactly 0.12.0"
        raise ImportError(message, name="etcd3")
    text: str = ast.literal_eval(found["literal"])
    return text.encode("latin-1")
