"""Find packages that ask for a module which the script has from elsewhere, for example from its own folder.

The folder of the script is not in sys.path during the imports ahead. So such a package would go on without the module.
"""

import sys

from .callers import calling_package
from .entry import is_own_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container


class MissingModules:
    """A finder behind all others that finds nothing: Python asks it for modules that the others have not found."""

    def __init__(self, recorded: "Container[str]", beside: "Container[str]" = ()) -> None:
        """Watch from now on; the script has imported the `recorded` modules, and could import those `beside` it."""
        self._recorded = recorded
        self._beside = beside
        self._asked: "dict[str, set[str]]" = {}
        sys.meta_path.append(self)

    def stop(self) -> "dict[str, str]":
        """Watch no more; return package → the end of a sentence about a module that it did not get."""
        sys.meta_path[:] = [each for each in sys.meta_path if each is not self]
        # A finder that an import has added behind this one may have found it.
        missing = {name: packages for name, packages in self._asked.items() if name not in sys.modules}
        # Each worker repeats an import that has failed.
        return {
            package: "{} {}, which is not installed".format("imports" if name in self._recorded else "looks for", name)
            for name, packages in missing.items()
            for package in packages
            if package in sys.modules
        }

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note the package that asks for this module, if the script has it."""
        del path, target
        is_there = name in self._recorded or name in self._beside
        package = calling_package(sys._getframe(1)) if is_there else ""
        if package and not is_own_module(package):
            self._asked.setdefault(name, set()).add(package)
