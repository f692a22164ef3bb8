"""Makes the symbol index: one run of mypy, then each file in turn."""

from pathlib import Path
from typing import Any

from mypy import build as mypy_build
from mypy import main as mypy_main
from mypy.modulefinder import BuildSource
from mypy.nodes import TypeInfo, Var
from mypy.subtypes import is_subtype
from mypy.typevars import fill_typevars_with_any

from hack.rename.index import Class, Index, Variable
from hack.rename.mypy_types import class_name
from hack.rename.nodes import Nodes
from hack.rename.places import Places
from hack.rename.tables import module_of
from hack.rename.text import ROOT, python_files

OURS = ("elasticjob", "tests", "testing", "benchmarks", "e2e", "hack", "examples", "images")


def build() -> Index:
    """Return the index of this tree."""
    sources, options = mypy_main.process_options(["--config-file", str(ROOT / "pyproject.toml")])
    known = {Path(source.path).resolve() for source in sources if source.path}
    for name in python_files():
        if (ROOT / name).resolve() not in known and name.startswith(("hack/", "testing/")) and "__init__" not in name:
            sources.append(BuildSource(name, module_of(name).replace("-", "_")))
    options.export_types = options.preserve_asts = True
    options.incremental = False
    result = mypy_build.build(sources, options)
    return _Maker(result).make()


class _Maker:
    def __init__(self, result: mypy_build.BuildResult) -> None:
        self.types = result.types
        self.trees = {
            name: tree
            for name, tree in result.files.items()
            if name.split(".")[0].startswith(OURS) and Path(tree.path).is_file()
        }  # fmt: skip
        self.index = Index()
        self.numbers: dict[int, int] = {}
        self.casts: set[tuple[str, str]] = set()
        self._alive: list[Any] = []

    def make(self) -> Index:
        infos: dict[str, TypeInfo] = {}
        all_nodes: dict[str, Nodes] = {}
        for name, tree in self.trees.items():
            path = str(Path(tree.path).resolve().relative_to(ROOT))
            self.index.files[name] = path
            self.index.globals[name] = {key for key, each in tree.names.items() if each.node}
            nodes = Nodes(self.number_of, path)
            for each in tree.defs:
                nodes.walk(each, name)
            infos.update(nodes.infos)
            all_nodes[name] = nodes
        for name, tree in self.trees.items():
            path = self.index.files[name]
            self.index.places[path] = Places(self, tree, path, name, all_nodes[name]).find()
        self._classes(infos)
        return self.index

    def _classes(self, infos: dict[str, TypeInfo]) -> None:
        ours = set(infos)
        for full, info in infos.items():
            outside = {key for base in info.mro if base.fullname not in ours for key in base.names}
            self.index.classes[full] = Class(
                tuple(base.fullname for base in info.mro), frozenset(info.names), info.is_protocol, frozenset(outside)
            )
        for double, cast in self.casts:
            if double in ours and cast in ours:
                bases = (each.fullname for each in infos[cast].mro)
                self.index.classes[double].implements.update(each for each in bases if each in ours)
        protocols = [info for info in infos.values() if info.is_protocol]
        for info in infos.values():
            held = {key for base in info.mro for key in base.names}
            for protocol in protocols:
                if protocol is info or not set(protocol.protocol_members) <= held:
                    continue
                if _fits(info, protocol):
                    self.index.classes[info.fullname].implements.add(protocol.fullname)

    def number_of(self, var: Var, function: str, file: str) -> int:
        """Return the number of a variable, a new one if it was not met before."""
        if id(var) not in self.numbers:
            self.numbers[id(var)] = len(self.index.variables)
            self._alive.append(var)
            self.index.variables.append(Variable(function, var.name, class_name(var.type), file))
        return self.numbers[id(var)]


def _fits(info: TypeInfo, protocol: TypeInfo) -> bool:
    try:
        return is_subtype(fill_typevars_with_any(info), fill_typevars_with_any(protocol))
    except Exception:  # noqa: BLE001 - a class that mypy gave up
        return False
