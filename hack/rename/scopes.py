"""Which names of a file mean an imported module, and where they are bound."""

import ast
from collections.abc import Iterator

_FUNCTIONS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def bound_names(scope: ast.AST) -> set[str]:
    """Return what a scope itself binds, without the scopes inside it."""
    found: set[str] = set()
    for node in _own_nodes(scope):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node is not scope:
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return found - _declared(scope)


def _declared(scope: ast.AST) -> set[str]:
    outer = (ast.Global, ast.Nonlocal)
    return {name for node in _own_nodes(scope) if isinstance(node, outer) for name in node.names}


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))


def uses(name: str, binder: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that mean what `binder`, a scope, binds to `name`."""
    yield from _uses_in(binder, name, top=True)


def _uses_in(scope: ast.AST, name: str, *, top: bool) -> Iterator[ast.Name]:
    if not top and name in bound_names(scope):
        # What stands outside the body (defaults, decorators, bases, annotations) belongs to the scope around.
        for part in _outer_parts(scope):
            yield from (node for node in ast.walk(part) if isinstance(node, ast.Name) and node.id == name)
        if isinstance(scope, ast.ClassDef):
            # The functions of a class do not see the names of its body.
            for node in _own_nodes(scope):
                if isinstance(node, _FUNCTIONS):
                    yield from _uses_in(node, name, top=False)
        return
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield from _uses_in(node, name, top=False)
            continue
        if isinstance(node, ast.Name) and node.id == name:
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def texts_of_types(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings that are annotations, or parts of one."""
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast":
            parts.append(node.args[0])
        for part in parts:
            for each in ast.walk(part) if part is not None else ():
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each


def _outer_parts(scope: ast.AST) -> Iterator[ast.AST]:
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield from scope.decorator_list
        yield from scope.args.defaults
        yield from (default for default in scope.args.kw_defaults if default)
        for argument in [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]:
            if argument.annotation:
                yield argument.annotation
        if scope.returns:
            yield scope.returns
    elif isinstance(scope, ast.ClassDef):
        yield from [*scope.decorator_list, *scope.bases, *(each.value for each in scope.keywords)]
    elif isinstance(scope, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        yield scope.generators[0].iter


def imports(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.Import | ast.ImportFrom]]:
    """Yield each import with the scope that it binds in."""
    yield from _imports_in(tree)


def _imports_in(scope: ast.AST) -> Iterator[tuple[ast.AST, ast.Import | ast.ImportFrom]]:
    for node in _own_nodes(scope):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield scope, node
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield from _imports_in(node)


def free_names(tree: ast.AST) -> set[str]:
    """Return every identifier that occurs in a file, bound anywhere."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found
