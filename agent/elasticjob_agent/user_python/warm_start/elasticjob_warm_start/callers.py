"""Find the package for which a function of Python, or one of ours, does something."""

import os

from .entry import is_own_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_STDLIB = os.path.dirname(os.__file__) + os.sep
_OWN_ENTRY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "site", "")
"""The folder of our `sitecustomize`, which has the name of the user's."""
PACKAGE_FOLDERS = ("site-packages", "dist-packages")
"""The names of folders of installed packages; Debian has the second."""
_SITE_PACKAGES = tuple(os.sep + name + os.sep for name in PACKAGE_FOLDERS)


def package_of(names: "dict[str, object]") -> str:
    """Return the package of the module that has these names."""
    return str(names.get("__name__", "")).partition(".")[0]


def is_standard_library(file: str) -> bool:
    """Whether this code comes with Python."""
    if file.startswith("<frozen"):
        return True
    return file.startswith(_STDLIB) and not any(folder in file for folder in _SITE_PACKAGES)


def is_installed(file: str) -> bool:
    """Whether this code comes with Python or with an installed package."""
    return is_standard_library(file) or any(folder in file for folder in _SITE_PACKAGES)


def calling_package(frame: "FrameType | None") -> str:
    """Return the package whose code has called functions of Python, and these this frame.

    A module of Python that is being imported counts itself: it may keep what it gets. The text is empty if we have
    called the functions.
    """
    innermost = ""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_OWN_ENTRY):
            return ""
        package = package_of(frame.f_globals)
        if not is_own_module(package):
            if frame.f_code.co_name == "<module>" or not is_standard_library(frame.f_code.co_filename):
                return package
            innermost = innermost or package
        frame = frame.f_back
    return innermost
