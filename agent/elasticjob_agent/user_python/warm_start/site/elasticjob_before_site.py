"""First module of a zygote: it begins to watch before Python runs any `.pth` file.

Python runs these files in the module `site`, before it imports `sitecustomize`. It imports the categories of the
warnings that PYTHONWARNINGS names even before `site`. So the agent names `BeforeSiteKind` there. This module then waits
for the import of `site`. It undoes what the agent has added to the environment and to the warnings. Then it begins to
watch.

Only a zygote has this, and it ends at any error: it must never run the script. A zygote whose sitecustomize does not
find this module ends, too. So does one in which our sitecustomize has not run by the end of `site`. Its file may be
gone since, or a `.pth` file may put another one in front of it.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAME = __name__


class BeforeSiteKind(Warning):
    """The category that PYTHONWARNINGS names; no warning has it."""


class _SiteListener:
    """A finder of the module `site`, and its loader."""

    def __init__(self) -> None:
        self.entry: "Any" = None
        self.request = ""
        self.has_entered = False
        """Whether our sitecustomize has taken over; it ends a zygote at any error."""
        self.end: "Any" = None
        self._loader: "Any" = None

    def find_spec(self, name: str, path: object = None, target: object = None) -> "Any":
        """Begin when `site` is asked for, and return its spec, with this as its loader."""
        del path, target
        if name != "site":
            return None
        sys.meta_path[:] = [each for each in sys.meta_path if each is not self]
        self._begin()
        spec: "Any" = next(filter(None, (finder.find_spec(name, None) for finder in sys.meta_path)))
        self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: "Any") -> "Any":
        """Return what the loader of Python returns."""
        return self._loader.create_module(spec)

    def exec_module(self, module: "Any") -> None:
        """Run `site`, and end this process if our sitecustomize has not run in it."""
        module.__spec__.loader = module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        finally:
            if not self.has_entered:
                self.end(70)  # EX_SOFTWARE

    def _begin(self) -> None:
        import os  # `site` needs it first

        self.end = end = os._exit
        try:
            before = frozenset(sys.modules) - {_NAME, "warnings"}
            self.request = _restore_environment()
            _forget_category()
            self.entry = _load(os.path.dirname(os.path.dirname(__file__)))
            self.entry.begin_zygote(self.request, before)
        except BaseException:  # noqa: BLE001 - no error may lead to the script
            try:
                sys.excepthook(*sys.exc_info())
            finally:
                end(70)  # EX_SOFTWARE


def _restore_environment() -> str:
    """Remove our variables; return the request of the agent."""
    import os

    for name in ("PYTHONPATH", "PYTHONWARNINGS"):
        original = os.environ.pop("ELASTICJOB_" + name, None)
        if original is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = original
    return os.environ.pop("ELASTICJOB_PRELOAD", "")


def _forget_category() -> None:
    """Remove the category from the warnings."""
    import warnings

    filters: "Any" = warnings.filters
    filters[:] = [each for each in filters if each[2] is not BeforeSiteKind]
    warnings._filters_mutated()  # type: ignore[attr-defined]
    sys.warnoptions[:] = [each for each in sys.warnoptions if not each.endswith(_NAME + "." + BeforeSiteKind.__name__)]


def _load(folder: str) -> "Any":
    """Return our entry, imported with the standard library alone: a module of the user may hide one that it needs."""
    import os

    path = list(sys.path)
    added = 1 + len(os.environ["PYTHONPATH"].split(os.pathsep)) if os.environ.get("PYTHONPATH") else 1
    sys.path[:] = [folder, *path[added:]]
    try:
        from elasticjob_warm_start import entry, zygote  # type: ignore[import-not-found]  # noqa: F401

        return entry
    finally:
        sys.path[:] = path


LISTENER = _SiteListener()
sys.meta_path.insert(0, LISTENER)
