"""Entry of the warm start: Python imports this module while it starts a worker's command, before the script.

The agent puts this folder in front of PYTHONPATH. The module first undoes that, so that neither the script nor its
children see it. Then it runs the `sitecustomize` of the user, if there is one, and does what the agent asked for:

    record:FD   report the imports of this worker on a pipe
    zygote:FD   import those modules, then fork workers; only the forked children return from here
    stacks      only register the signal that writes stacks

After that, Python goes on and runs the script itself. So options, `-m`, tracebacks and exit codes need no emulation.

A worker starts whatever is wrong here. A zygote ends at any error: it must never run the script.

Any interpreter that a worker starts first may read this file, also Python 2. So it has the syntax of all of them. Those
before Python 3.8 only get their environment back.
"""


def _enter():
    # type: () -> None
    import os
    import sys

    here = os.path.dirname(__file__)
    end = os._exit  # an import may replace it
    request = _restore_environment()
    sys.path[:] = [entry for entry in sys.path if entry != here]
    own = sys.modules.pop("sitecustomize")  # Python 2 forgets the names of a module without a reference
    is_zygote = request.startswith("zygote")
    try:
        entry = _load(os.path.dirname(here), is_zygote)  # type: ignore[no-untyped-call]
        if entry is not None:
            entry.prepare(request)
        has_own = _import_own()
        if entry is not None:
            entry.run(request)
    except BaseException:
        if not is_zygote:
            raise
        try:
            sys.excepthook(*sys.exc_info())  # it may be that of an import, and raise; so may a signal handler
        finally:
            end(70)  # EX_SOFTWARE
    finally:
        _remove_traces(os.path.dirname(here))
        del own
    if not has_own:
        # site.py ignores exactly this error, and sys.modules has no trace of this module.
        missing = ImportError("No module named 'sitecustomize'")
        missing.name = "sitecustomize"
        raise missing


def _restore_environment():
    # type: () -> str
    """Remove our variables; return the request of the agent."""
    import os

    request = os.environ.pop("ELASTICJOB_PRELOAD", "")
    original = os.environ.pop("ELASTICJOB_PYTHONPATH", None)
    # Unset and empty differ: the script may read the variable.
    if original is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = original
    return request


def _remove_traces(folder):
    # type: (str) -> None
    """Remove our modules, and our folders from Python's cache."""
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] == "elasticjob_warm_start"]:
        del sys.modules[name]
    for path in [path for path in sys.path_importer_cache if path.startswith(folder)]:
        del sys.path_importer_cache[path]


def _load(folder, is_zygote):  # type: ignore[no-untyped-def]  # it returns a module
    """Return the module that carries out the request, None if it cannot be imported in a worker."""
    import sys

    if sys.version_info < (3, 8):
        if is_zygote:
            raise RuntimeError("this Python is older than 3.8")
        return None
    sys.path.insert(0, folder)
    try:
        from elasticjob_warm_start import entry  # type: ignore[import-not-found]
    except Exception:
        if is_zygote:
            raise
        return None
    else:
        return entry
    finally:
        sys.path.remove(folder)


def _import_own():
    # type: () -> bool
    """Import the sitecustomize of the user or the distribution; return whether there is one."""
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        return False
    return True


_enter()
