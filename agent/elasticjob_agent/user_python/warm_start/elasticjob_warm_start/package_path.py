"""Find out whether a file belongs to the standard library or an installed package, and not to the script."""

import contextlib
import os
import sys

from .callers import PACKAGE_FOLDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


class PackagePath:
    """The folders of the standard library and of installed packages."""

    def __init__(self, folders: "list[str]") -> None:
        """Keep these real paths."""
        self.folders = folders
        self._real_folders: "dict[str, str]" = {}

    def has_module(self, spec: "ModuleSpec") -> bool:
        """Whether this module is in one of them, or in no file."""
        if isinstance(spec.origin, str) and os.path.isabs(spec.origin):  # others are built in, frozen or generated
            return self.has(spec.origin)
        return all(self.has(str(each)) for each in spec.submodule_search_locations or ())

    def has(self, path: str) -> bool:
        """Whether this file or folder is in one of them."""
        real = os.path.realpath(path) if os.path.islink(path) else os.path.join(self._real(path), "")
        return any(real.startswith(folder + os.sep) for folder in self.folders)

    def _real(self, path: str) -> str:
        """Return the real path of the folder of this file; a package has many files in one folder."""
        folder = os.path.dirname(path)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder)
        return self._real_folders[folder]


def find_package_path() -> PackagePath:
    """Return that of this interpreter; the module `site` must have run before."""
    import site  # not before: the import of this module is what runs `.pth` files
    import sysconfig  # not before: it keeps the prefix, which `site` sets in a virtual environment

    paths = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    with contextlib.suppress(AttributeError):  # an old virtualenv replaces the module site
        paths += site.getsitepackages()
        paths.append(site.getusersitepackages())
    # Debian's packages, and the standard library of a Python below a virtual environment.
    paths += [entry for entry in sys.path if os.path.basename(entry) in PACKAGE_FOLDERS]
    paths.append(os.path.dirname(os.__file__))
    return PackagePath(sorted({os.path.realpath(path) for path in paths if path and os.path.isdir(path)}))
