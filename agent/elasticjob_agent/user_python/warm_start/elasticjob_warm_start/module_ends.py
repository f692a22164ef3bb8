"""Call a function at the end of the import of some modules, before the code that has asked for it goes on."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class ModuleEnds:
    """A finder that finds these modules as the others do, and watches the end of their code."""

    def __init__(self, names: "Collection[str]", call: "Callable[[], None]") -> None:
        """Call this function when one of the modules with these names has been imported."""
        self._names = names
        self._call = call
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Watch no more."""
        sys.meta_path[:] = [each for each in sys.meta_path if each is not self]

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """Return what the other finders find, of the watched modules alone."""
        if name not in self._names:
            return None
        for finder in [each for each in sys.meta_path if each is not self and hasattr(each, "find_spec")]:
            spec: "ModuleSpec | None" = finder.find_spec(name, path, target)  # type: ignore[arg-type]
            if spec is not None:
                self._watch(spec)
                return spec
        return None

    def _watch(self, spec: "ModuleSpec") -> None:
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        # A module that is loaded in another way is none of numpy or torch. The name in this object hides the method.
        if execute is None or not hasattr(loader, "__dict__"):
            return

        def execute_and_call(module: "ModuleType") -> None:
            del loader.__dict__["exec_module"]
            execute(module)
            self._call()

        loader.__dict__["exec_module"] = execute_and_call
