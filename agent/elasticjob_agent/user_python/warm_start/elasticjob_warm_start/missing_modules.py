"""Find packages that ask for a module which the script has from elsewhere, for example from its own folder.

The folder of the script is not in sys.path during the imports ahead. So such a package would go on without the module.
"""

import sys

from .callers import package_of
from .entry import is_own_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from types import FrameType


class MissingModules:
    """A finder behind all others that finds nothing: Python asks it for modules that the others have not found."""

    def __init__(self, recorded: "Container[str]") -> None:
        """Watch from now on; the script has imported the `recorded` modules."""
        self._recorded = recorded
        self._asked: "dict[str, set[str]]" = {}
        sys.meta_path.append(self)

    def stop(self) -> "dict[str, str]":
        """Watch no more; return package → the module that it did not get."""
        sys.meta_path[:] = [each for each in sys.meta_path if each is not self]
        # A finder that an import has added behind this one may have found it.
        missing = {name: packages for name, packages in self._asked.items() if name not in sys.modules}
        # Each worker repeats an import that has failed.
        return {package: name for name, packages in missing.items() for package in packages if package in sys.modules}

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note the package that asks for this module, if the script has it."""
        del path, target
        package = _asking() if name in self._recorded else ""
        if package and not is_own_module(package):
            self._asked.setdefault(name, set()).add(package)


def _asking() -> str:
    """Return the package whose code imports a module now."""
    frame: "FrameType | None" = sys._getframe(2)
    while frame is not None and package_of(frame.f_globals) in {"importlib", "_frozen_importlib"}:
        frame = frame.f_back
    return "" if frame is None else package_of(frame.f_globals)
