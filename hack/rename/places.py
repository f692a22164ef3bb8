"""Every identifier of a file, with what it may mean."""

import ast
import re
from collections.abc import Iterable
from typing import Any, Protocol

from mypy.nodes import (
    GDEF,
    LDEF,
    MDEF,
    ArgKind,
    CallExpr,
    Decorator,
    Expression,
    FuncDef,
    LambdaExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    RefExpr,
    SuperExpr,
    SymbolNode,
    TypeAlias,
    TypeInfo,
    Var,
)
from mypy.types import CallableType, Instance, Overloaded, Type, TypeType, UnionType, get_proper_type

from hack.rename.index import Target
from hack.rename.mypy_types import infos_of, is_any
from hack.rename.nodes import Nodes, calls_with
from hack.rename.parametrized import parametrized
from hack.rename.text import ROOT, Edits


def _keys_at(node: ast.AST, name: str) -> list[ast.expr | None]:
    """Return the keys of the dictionary in a variable that a node writes or reads."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            return node.value.keys if isinstance(node.value, ast.Dict) else []
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name:
        return [node.slice]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == name and node.func.attr in {"get", "setdefault", "pop"}:
            return [node.args[0]]
    return []


class Resolved(Protocol):
    """What mypy knows of the whole repository."""

    types: dict[Expression, Type]
    trees: dict[str, MypyFile]
    numbers: dict[int, int]
    casts: set[tuple[str, str]]
    """Class → the class that it is cast to."""


_DOTTED = re.compile(r"(?<![\w./])(?:elasticjob\w*|tests|testing|benchmarks)(?:\.\w+)+")
_ATTRIBUTE_CALLS = {"getattr", "setattr", "hasattr", "delattr"}


class Places:
    """Finds every identifier of a file, and what it means."""

    def __init__(self, maker: Resolved, tree: MypyFile, path: str, module: str, nodes: Nodes) -> None:
        self.maker, self.tree, self.path, self.module, self.nodes = maker, tree, path, module, nodes
        self.edits = Edits((ROOT / path).read_text())
        self.parsed = ast.parse(self.edits.source)
        self.lines = self.edits.source.split("\n")
        self.found: list[tuple[int, int, str, tuple[Target, ...]]] = []
        self.functions: list[ast.AST] = []
        self._forwarding: set[tuple[str, str]] = set()

    def find(self) -> list[tuple[int, int, str, tuple[Target, ...]]]:
        """Return start, end, name and meanings of each identifier."""
        self._visit(self.parsed, None)
        return self.found

    # --- walking ---

    def _visit(self, node: ast.AST, owner: TypeInfo | None) -> None:
        method = getattr(self, f"_on_{type(node).__name__}", None)
        if method:
            method(node, owner)
        inner = owner
        if isinstance(node, ast.ClassDef):
            inner = self._get(self.nodes.class_infos, node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inner = None
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if is_function:
            self.functions.append(node)
        for child in ast.iter_child_nodes(node):
            outside = isinstance(node, ast.ClassDef) and child not in node.body
            self._visit(child, owner if outside else inner)
        if is_function:
            self.functions.pop()

    def _note(self, start: int, name: str, *targets: Target) -> None:
        end = start + len(name.encode())
        if self.edits.text(start, end) == name:
            self.found.append((start, end, name, targets))
        else:
            self.found.append((start, end, name, (("?", "position", name),)))

    def _columns(self, line: int, column: int) -> list[int]:
        """Return what mypy may call a column: it counts characters, on lines that are not ASCII twice."""
        text = self.lines[line - 1]
        if text.isascii():
            return [column]
        characters = len(text.encode()[:column].decode())
        return [len(text.encode()[:characters].decode(errors="ignore")), characters, column]

    def _get(self, table: dict[tuple[int, int], Any], node: Any) -> Any:
        """Return mypy's node at the start of another."""
        found = (table.get((node.lineno, column)) for column in self._columns(node.lineno, node.col_offset))
        return next((each for each in found if each is not None and self._is_named(each, node)), None)

    def _get_whole(self, table: dict[tuple[int, int, int, int], Any], node: Any) -> Any:
        """Return mypy's node at the start and end of another."""
        for start in self._columns(node.lineno, node.col_offset):
            for end in self._columns(node.end_lineno, node.end_col_offset):
                found = table.get((node.lineno, start, node.end_lineno, end))
                if found is not None and self._is_named(found, node):
                    return found
        return None

    def _is_named(self, found: Any, node: Any) -> bool:
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        return name is None or getattr(found, "name", name) == name

    def _at(self, node: Any) -> int:
        return self.edits.offset(node.lineno, node.col_offset)

    def _end(self, node: Any) -> int:
        return self.edits.offset(node.end_lineno, node.end_col_offset)

    # --- definitions ---

    def _on_ClassDef(self, node: ast.ClassDef, owner: TypeInfo | None) -> None:  # noqa: N802
        self._definition(node, "class", owner)

    def _on_FunctionDef(self, node: ast.FunctionDef, owner: TypeInfo | None) -> None:  # noqa: N802
        self._definition(node, "def", owner)
        self._arguments(node, self._get(self.nodes.functions, node))

    def _on_AsyncFunctionDef(self, node: ast.AsyncFunctionDef, owner: TypeInfo | None) -> None:  # noqa: N802
        self._definition(node, "def", owner)
        self._arguments(node, self._get(self.nodes.functions, node))

    def _on_Lambda(self, node: ast.Lambda, _owner: TypeInfo | None) -> None:  # noqa: N802
        self._arguments(node, self._get(self.nodes.lambdas, node))

    def _definition(self, node: Any, word: str, owner: TypeInfo | None) -> None:
        start = self._at(node)
        text = self.edits.text(start, start + 400)
        match = re.match(rf"(?:async\s+)?{word}\s+", text)
        assert match, f"{self.path}:{node.lineno}"
        if owner is not None:
            target: Target = ("m", owner.fullname, node.name)
        elif node in self._top():
            target = ("g", f"{self.module}.{node.name}", "")
        else:
            return
        self._note(start + len(match.group().encode()), node.name, target)

    def _top(self) -> list[ast.stmt]:
        found = list(self.parsed.body)
        for node in self.parsed.body:
            if isinstance(node, (ast.If, ast.Try)):
                found += [each for each in ast.walk(node) if isinstance(each, (ast.FunctionDef, ast.ClassDef))]
        return found

    def _arguments(self, node: Any, func: FuncDef | LambdaExpr | None) -> None:
        given = node.args
        self._annotation(getattr(node, "returns", None))
        self._documented_arguments(node, func)
        for each in [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]:
            if each is not None:
                targets = self._argument(func, each.arg)
                self._note(self._at(each), each.arg, *targets)

    def _documented_arguments(self, node: Any, func: FuncDef | LambdaExpr | None) -> None:
        """Note the names in the section `Args:` of a docstring."""
        first = node.body[0] if isinstance(node.body, list) else None
        if not (
            isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and "Args:" in str(first.value.value)
        ):
            return
        start = self._at(first)
        text = self.edits.text(start, self._end(first))
        for argument in func.arguments if func is not None else ():
            name = argument.variable.name
            if match := re.search(rf"(?m)^\s+({name}):", text[text.index("Args:") :]):
                at = text.index("Args:") + match.start(1)
                self._note(start + len(text[:at].encode()), name, *self._argument(func, name))

    def _argument(self, func: Any, name: str) -> tuple[Target, ...]:
        for argument in func.arguments if func is not None else ():
            if argument.variable.name == name and id(argument.variable) in self.maker.numbers:
                return (("v", str(self.maker.numbers[id(argument.variable)]), name),)
        return ()

    # --- uses ---

    def _on_Name(self, node: ast.Name, _owner: TypeInfo | None) -> None:  # noqa: N802
        found = self._get(self.nodes.names, node)
        if found is not None and found.name == node.id and found.node is not None:
            self._note(self._at(node), node.id, *self._of_node(found.node, found.kind, node.id))
        else:
            self._note(self._at(node), node.id, *self._of_global(node.id))

    def _of_global(self, name: str) -> tuple[Target, ...]:
        symbol = self.tree.names.get(name)
        if symbol is None or symbol.node is None:
            return ()
        return self._of_node(symbol.node, GDEF, name)

    def _of_node(self, node: SymbolNode, kind: int | None, name: str) -> tuple[Target, ...]:
        if isinstance(node, MypyFile):
            return ()
        if kind == LDEF:
            number = self.maker.numbers.get(id(node))
            return (("v", str(number), name),) if number is not None else ()
        info = getattr(node, "info", None)
        if kind == MDEF and info:
            return (("m", info.fullname, name),)
        full = node.fullname
        return (("g", full, ""),) if full and full.rpartition(".")[2] == name else ()

    def _on_Attribute(self, node: ast.Attribute, _owner: TypeInfo | None) -> None:  # noqa: N802
        start = self._end(node) - len(node.attr.encode())
        self._note(start, node.attr, *self._of_attribute(node, self._get_whole(self.nodes.members, node)))

    def _of_attribute(self, node: ast.Attribute, found: MemberExpr | SuperExpr | None) -> tuple[Target, ...]:
        if isinstance(found, SuperExpr):
            bases = found.info.mro[1:] if found.info else []
            return next(((("m", base.fullname, node.attr),) for base in bases if node.attr in base.names), ())
        if found is None:
            return self._of_dotted(node)
        if isinstance(found.expr, RefExpr) and isinstance(found.expr.node, MypyFile):
            return self._of_module(found.expr.node, node.attr)
        if isinstance(found.expr, RefExpr) and isinstance(found.expr.node, TypeInfo):
            return self._of_infos([found.expr.node], node.attr)
        kind = self.maker.types.get(found.expr)
        if kind is None and isinstance(found.expr, NameExpr) and isinstance(found.expr.node, Var):
            kind = found.expr.node.type
        infos = infos_of(kind)
        if infos and not is_any(kind):
            return self._of_infos(infos, node.attr)
        return (("?", f"{type(get_proper_type(kind)).__name__ if kind else 'no type'}", node.attr),)

    def _of_module(self, tree: MypyFile, name: str) -> tuple[Target, ...]:
        symbol = tree.names.get(name)
        return self._of_node(symbol.node, GDEF, name) if symbol and symbol.node else ()

    def _of_infos(self, infos: list[TypeInfo], name: str) -> tuple[Target, ...]:
        found = []
        for info in infos:
            owner = next((base for base in info.mro if name in base.names), None)
            if owner is not None:
                found.append(("m", owner.fullname, name))
            elif info.fullname != "builtins.object":
                found.append(("m", info.fullname, name))
        return tuple(dict.fromkeys(found))

    def _of_dotted(self, node: ast.Attribute) -> tuple[Target, ...]:
        """Resolve `module.name` or `Class.name` where mypy has no node: in an annotation."""
        if isinstance(node.value, ast.Name):
            symbol = self.tree.names.get(node.value.id)
            if symbol and isinstance(symbol.node, MypyFile):
                return self._of_module(symbol.node, node.attr)
            if symbol and isinstance(symbol.node, TypeInfo):
                return self._of_infos([symbol.node], node.attr)
        return (("?", "no node", node.attr),)

    # --- imports, keywords, patterns ---

    def _on_ImportFrom(self, node: ast.ImportFrom, _owner: TypeInfo | None) -> None:  # noqa: N802
        module = node.module or ""
        if node.level:
            package = self.module if self.path.endswith("__init__.py") else self.module.rpartition(".")[0]
            module = ".".join(filter(None, [package, module]))
        tree = self.maker.trees.get(module)
        for alias in node.names:
            if tree is not None:
                targets = self._of_module(tree, alias.name)
                self._note(self._at(alias), alias.name, *targets)

    def _on_Call(self, node: ast.Call, _owner: TypeInfo | None) -> None:  # noqa: N802
        call = self._get_whole(self.nodes.calls, node)
        for keyword in node.keywords:
            if keyword.arg:
                self._note(self._at(keyword), keyword.arg, *self._of_keyword(call, keyword.arg))
        self._named_attributes(node, call)
        for keyword in node.keywords:
            if keyword.arg is None and call is not None:
                self._keys_of(keyword.value, call)
        if isinstance(node.func, ast.Name) and node.func.id == "cast":
            self._annotation(node.args[0])
            self._note_cast(node.args[0], call)

    def _note_cast(self, target: ast.expr, call: CallExpr | None) -> None:
        """Note a class that replaces another: `cast("Class", double)`."""
        name = target.value if isinstance(target, ast.Constant) else getattr(target, "id", "")
        symbol = self.tree.names.get(str(name))
        if call is not None and symbol is not None and isinstance(symbol.node, TypeInfo):
            given = infos_of(self.maker.types.get(call.args[-1]))
            self.maker.casts.update((info.fullname, symbol.node.fullname) for info in given)

    def _keys_of(self, given: ast.expr, call: CallExpr) -> None:
        """Note the keys of a dictionary that is handed on as keywords, written there or kept in a variable before."""
        if isinstance(given, ast.Dict):
            self._key_strings(given.keys, call)
        if isinstance(given, ast.Name) and self.functions:
            for node in ast.walk(self.functions[-1]):
                self._key_strings(_keys_at(node, given.id), call)
            for value in parametrized(self.functions[-1], given.id):
                self._key_strings(value.keys, call)

    def _key_strings(self, keys: Iterable[ast.expr | None], call: CallExpr) -> None:
        for key in keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                targets = self._of_callee(call.callee, key.value)
                if targets and targets[0][0] != "?":
                    self._note(self._at(key) + 1, key.value, *targets)

    def _of_keyword(self, call: CallExpr | None, name: str) -> tuple[Target, ...]:
        if call is None:
            return (("?", "no call", name),)
        if isinstance(call.callee, RefExpr) and call.callee.fullname == "dataclasses.replace" and call.args:
            return self._of_infos(infos_of(self.maker.types.get(call.args[0])), name) or (("?", "replace", name),)
        if isinstance(call.callee, MemberExpr) and call.callee.name == "_replace":
            return self._of_infos(infos_of(self.maker.types.get(call.callee.expr)), name) or (("?", "_replace", name),)
        called = self._of_callee(call.callee, name)
        if called and called[0][0] != "f":
            return called
        for each, kind in zip(call.args, call.arg_kinds, strict=True):  # builds(Class, field=…), partial(f, argument=…)
            if kind == ArgKind.ARG_POS and (found := self._of_callee(each, name)):
                return found
        return called or ((("?", "callee", name),) if is_any(self.maker.types.get(call.callee)) else ())

    def _of_callee(self, callee: Expression, name: str) -> tuple[Target, ...]:
        if isinstance(callee, RefExpr) and isinstance(callee.node, TypeInfo):
            return self._of_constructor(callee.node, name)
        if isinstance(callee, RefExpr) and isinstance(callee.node, (FuncDef, Decorator)):
            func = callee.node.func if isinstance(callee.node, Decorator) else callee.node
            if found := self._argument(func, name) or self._forwarded(func, name):
                return found
        return self._of_callable(self.maker.types.get(callee), name)

    def _of_callable(self, kind: Type | None, name: str) -> tuple[Target, ...]:
        proper = get_proper_type(kind) if kind is not None else None
        if isinstance(proper, (Overloaded, UnionType)):
            return tuple(dict.fromkeys(each for item in proper.items for each in self._of_callable(item, name)))
        if isinstance(proper, TypeType):
            return tuple(each for info in infos_of(proper.item) for each in self._of_constructor(info, name))
        if isinstance(proper, CallableType) and proper.is_type_obj():
            return self._of_constructor(proper.type_object(), name)
        definition = self._definition_of(proper)
        func = definition.func if isinstance(definition, Decorator) else definition
        return self._argument(func, name) or self._forwarded(func, name) if isinstance(func, FuncDef) else ()

    def _forwarded(self, func: FuncDef, name: str) -> tuple[Target, ...]:
        """Return what a keyword is for if a function takes any: what the body hands it to, or what is returned."""
        star = next((each.variable for each in func.arguments if each.kind == ArgKind.ARG_STAR2), None)
        if star is None or (func.fullname, name) in self._forwarding:
            return ()
        self._forwarding.add((func.fullname, name))
        try:
            found = [self._of_keyword(call, name) for call in calls_with(func, star)]
        finally:
            self._forwarding.discard((func.fullname, name))
        for each in found:
            if each and each[0][0] not in {"?", "f"}:
                return each
        returned = get_proper_type(func.type.ret_type) if isinstance(func.type, CallableType) else None
        if isinstance(returned, Instance) and returned.type.get(name):
            return self._of_infos([returned.type], name)
        return next((each for each in found if each and each[0][0] == "f"), (("f", func.fullname, name),))

    def _definition_of(self, proper: Type | None) -> SymbolNode | None:
        if isinstance(proper, CallableType):
            return proper.definition
        symbol = proper.type.get("__call__") if isinstance(proper, Instance) else None
        return symbol.node if symbol else None

    def _of_constructor(self, info: TypeInfo, name: str) -> tuple[Target, ...]:
        for method in ("__init__", "__new__"):
            symbol = info.get(method)
            if symbol is None or symbol.plugin_generated or not symbol.node:
                continue
            func = symbol.node.func if isinstance(symbol.node, Decorator) else symbol.node
            if isinstance(func, FuncDef) and (found := self._argument(func, name)):
                return found
        return self._of_infos([info], name)

    def _named_attributes(self, node: ast.Call, call: CallExpr | None) -> None:
        """Note the strings that name an attribute: `getattr(x, "name")`, `monkeypatch.setattr(x, "name", …)`."""
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in {*_ATTRIBUTE_CALLS, "object"} or len(node.args) < 2 or call is None:  # noqa: PLR2004
            return
        given = node.args[1]
        if not (isinstance(given, ast.Constant) and isinstance(given.value, str) and given.value.isidentifier()):
            return
        owner = call.args[0]
        if isinstance(owner, RefExpr) and isinstance(owner.node, MypyFile):
            targets = self._of_module(owner.node, given.value)
        elif isinstance(owner, RefExpr) and isinstance(owner.node, TypeInfo):
            targets = self._of_infos([owner.node], given.value)
        else:
            kind = self.maker.types.get(owner)
            targets = self._of_infos(infos_of(kind), given.value) or (("?", "getattr", given.value),)
        self._note(self._at(given) + 1, given.value, *targets)

    def _on_MatchClass(self, node: ast.MatchClass, _owner: TypeInfo | None) -> None:  # noqa: N802
        pattern = self._get(self.nodes.patterns, node)
        info = pattern.class_ref.node if pattern else None
        for name, value in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
            end = self._at(value)
            before = self.edits.text(max(0, end - 200), end)
            match = re.search(rf"{name}\s*=\s*\(?\s*$", before)
            if match and isinstance(info, TypeInfo):
                start = end - len(before[match.start() :].encode())
                self._note(start, name, *self._of_infos([info], name))

    def _on_MatchAs(self, node: ast.MatchAs, _owner: TypeInfo | None) -> None:  # noqa: N802
        if node.name:
            self._note(self._end(node) - len(node.name.encode()), node.name, *self._local(node.name, node))

    def _on_ExceptHandler(self, node: ast.ExceptHandler, _owner: TypeInfo | None) -> None:  # noqa: N802
        if node.name and node.type:
            end = self._end(node.type)
            text = self.edits.text(end, end + 80)
            if match := re.match(r"\)?\s+as\s+", text):
                self._note(end + len(match.group()), node.name, *self._local(node.name, node))

    def _local(self, name: str, near: Any) -> tuple[Target, ...]:
        """Return the variable of this name that is used next below a position."""
        after = [(at, each) for at, each in self.nodes.names.items() if each.name == name and at[0] >= near.lineno]
        for _, each in sorted(after, key=lambda pair: pair[0])[:1]:
            if each.kind == LDEF and each.node is not None:
                return self._of_node(each.node, LDEF, name)
        return ()

    def _on_Global(self, node: ast.Global, _owner: TypeInfo | None) -> None:  # noqa: N802
        start = self._at(node)
        text = self.edits.text(start, self._end(node))
        for name in node.names:
            if match := re.search(rf"\b{name}\b", text):
                self._note(start + match.start(), name, *self._of_global(name))

    def _on_Nonlocal(self, node: ast.Nonlocal, _owner: TypeInfo | None) -> None:  # noqa: N802
        start = self._at(node)
        text = self.edits.text(start, self._end(node))
        for name in node.names:
            if match := re.search(rf"\b{name}\b", text):
                self._note(start + match.start(), name, *self._local(name, node))

    # --- strings ---

    def _on_Constant(self, node: ast.Constant, _owner: TypeInfo | None) -> None:  # noqa: N802
        if not isinstance(node.value, str):
            return
        start, end = self._at(node), self._end(node)
        text = self.edits.text(start, end)
        for match in _DOTTED.finditer(text):
            self._dotted_string(start + len(text[: match.start()].encode()), match.group())

    def _dotted_string(self, start: int, text: str) -> None:
        parts = text.split(".")
        for count in range(len(parts) - 1, 0, -1):
            tree = self.maker.trees.get(".".join(parts[:count]))
            if tree is None:
                continue
            at = start + len(".".join(parts[:count])) + 1
            symbol = tree.names.get(parts[count])
            if symbol is None or symbol.node is None or isinstance(symbol.node, MypyFile):
                return
            self._note(at, parts[count], *self._of_node(symbol.node, GDEF, parts[count]))
            if count + 1 < len(parts) and isinstance(symbol.node, TypeInfo):
                at += len(parts[count]) + 1
                self._note(at, parts[count + 1], *self._of_infos([symbol.node], parts[count + 1]))
            return

    def _strings_in(self, node: ast.AST) -> list[ast.Constant]:
        return [each for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]

    def _on_Assign(self, node: ast.Assign, owner: TypeInfo | None) -> None:  # noqa: N802
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node.value, ast.Subscript):
            self._annotation(node.value.slice, only_types=True)  # a name for a type: Run = Callable[["Setup"], None]
        for name, resolve in (("__all__", None), ("__slots__", owner), ("__match_args__", owner)):
            if name not in names:
                continue
            for each in self._strings_in(node.value):
                word = str(each.value)
                targets = self._of_infos([resolve], word) if resolve is not None else self._of_global(word)
                self._note(self._at(each) + 1, word, *targets)

    def _on_arg(self, node: ast.arg, _owner: TypeInfo | None) -> None:
        self._annotation(node.annotation)

    def _on_AnnAssign(self, node: ast.AnnAssign, _owner: TypeInfo | None) -> None:  # noqa: N802
        self._annotation(node.annotation)

    def _annotation(self, node: ast.AST | None, *, only_types: bool = False) -> None:
        """Note the names inside annotations that are strings."""
        for each in self._strings_in(node) if node is not None else []:
            start = self._at(each) + 1
            for match in re.finditer(r"(?<![\w.])\w+", str(each.value)):
                symbol = self.tree.names.get(match.group())
                if not only_types or (symbol and isinstance(symbol.node, (TypeInfo, TypeAlias))):
                    self._note(start + match.start(), match.group(), *self._of_global(match.group()))
