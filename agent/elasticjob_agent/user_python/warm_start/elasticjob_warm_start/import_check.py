"""Check right before a script that its imports would find the very modules that are already imported."""

import contextlib
import os
import sys

from .callers import PACKAGE_FOLDERS
from .distributions import first_unknown, names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ImportCheck:
    """The files of the imported modules, and the folders in which a file could hide one."""

    def __init__(
        self,
        *,
        files: "dict[str, int]",
        top_level: "list[str]",
        folders: "list[str]",
        package_folders: "tuple[str, ...] | list[str]" = (),
        changed: "dict[str, int] | None" = None,
        distributions: "frozenset[str] | None" = None,
    ) -> None:
        """Compare with this state.

        Args:
            files: the files of the imported modules, each with its time of modification in nanoseconds.
            top_level: the first parts of the names of these modules.
            folders: the folders that an earlier worker has added to sys.path.
            package_folders: those of installed packages; a new `.pth` file there counts as changed.
            changed: the times of change that some of these files had before their import; others have that of now.
            distributions: those that the imports could list; None: they have listed none.
        """
        self._package_folders = tuple(package_folders)
        times = dict(changed or {})
        times.update(changed_times(path for path in files if path not in times))
        # One text: a look at thousands of objects writes to their reference counts. Each write copies a page that the
        # zygote shares with its workers.
        self._files = "\0".join("{} {} {}".format(time_ns, times[path], path) for path, time_ns in files.items())
        self._top_level = frozenset(top_level)
        self._folders = folders
        self._distributions = distributions

    def first_changed(self) -> str:
        """Return a file that is not the one that was imported, or an empty text."""
        for file in _parts(self._files):
            modified_ns, changed_ns, path = file.split(" ", 2)
            try:
                found = os.stat(path)
                if (found.st_mtime_ns, found.st_ctime_ns) != (int(modified_ns), int(changed_ns)):
                    return path
            except (OSError, ValueError):  # another node's profile may have any text in place of a path
                return path or "a file without a name"
        return next((path for path in path_files(self._package_folders) if " " + path not in self._files), "")

    def reason(self, package_folders: "list[str]") -> str:
        """Return why the script must import by itself, or an empty text; it is about to run in this folder."""
        changed = self.first_changed()
        if changed:
            return changed + " has changed since it was imported"
        for folder in _searched(self._folders, package_folders):
            for name in _modules_in(folder):
                if name in self._top_level:
                    return "{} in {} would hide the imported module".format(name, folder)
            unknown = "" if self._distributions is None else first_unknown(folder, self._distributions)
            if unknown:
                return "an import has listed the distributions, without {} in {}".format(unknown, folder)
        return ""


def modules_beside(folders: "Iterable[str]", package_folders: "list[str]") -> "set[str]":
    """Return what the script could import besides installed packages; `folders` are those that it adds to sys.path.

    A folder without __init__ counts, too: nothing of that name is installed, if a package has asked in vain.
    """
    searched = _searched(folders, package_folders)
    return {name.partition(".")[0] for folder in searched for name in (*_modules_in(folder), *_folders_in(folder))}


def _folders_in(folder: str) -> "list[str]":
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.name.isidentifier() and entry.is_dir()]
    return []


def _searched(folders: "Iterable[str]", package_folders: "list[str]") -> "list[str]":
    """Return the folders and archives that the script searches besides those of installed packages."""
    own = [os.path.realpath(each) for each in _script_folder()]
    others = [os.path.realpath(each) for each in (*folders, *sys.path)]
    return list(dict.fromkeys([*own, *(each for each in others if not is_below(each, package_folders))]))


def changed_times(paths: "Iterable[str]") -> "dict[str, int]":
    """Return for each of these files when it or its name was changed last, in nanoseconds; -1 if there is none.

    The time of modification may be set, and archives of packages have the same one for all files. This one cannot.
    """
    times = {}
    for path in paths:
        try:
            times[path] = os.stat(path).st_ctime_ns
        except (OSError, ValueError):
            times[path] = -1
    return times


def _parts(text: str) -> "Iterator[str]":
    """Return the parts of this text between NUL characters, one after the other: all of them take much memory."""
    begin = 0
    while begin < len(text):
        end = text.find("\0", begin)
        end = len(text) if end < 0 else end
        yield text[begin:end]
        begin = end + 1


def path_files(package_folders: "Iterable[str]") -> "dict[str, int]":
    """Return the `.pth` files in these folders, which Python runs before a script, with their times of modification."""
    found: "dict[str, int]" = {}
    for folder in package_folders:
        if os.path.basename(folder) not in PACKAGE_FOLDERS:
            continue
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            found.update((each.path, each.stat().st_mtime_ns) for each in entries if each.name.endswith(".pth"))
    return found


def is_below(path: str, folders: "list[str]") -> bool:
    """Whether this real path is one of these folders, or in one."""
    return any((path + os.sep).startswith(folder + os.sep) for folder in folders)


def _script_folder() -> "list[str]":
    """Return the entry that Python puts in front of sys.path before the script."""
    if getattr(sys.flags, "safe_path", False) or not getattr(sys, "argv", None):
        return []
    script = sys.argv[0]
    if script in {"-m", "-c"}:
        return [os.getcwd()]
    # An archive is an entry itself, and any other file counts by its folder.
    return [script] if os.path.isdir(script) else [script, os.path.dirname(os.path.realpath(script))]


def _modules_in(folder: str) -> "list[str]":
    """Return its modules and its packages: a folder without __init__ never hides an installed package."""
    names = names_in(folder)
    if not os.path.isdir(folder):
        return [name.partition(".")[0] for name in names]
    found = []
    for name in names:
        stem, dot, suffix = name.partition(".")
        if not dot:
            if any(os.path.exists(os.path.join(folder, name, "__init__" + each)) for each in (".py", ".pyc", ".so")):
                found.append(name)
        elif suffix.endswith(("py", "pyc", "so")):
            found.append(stem)
    return found
