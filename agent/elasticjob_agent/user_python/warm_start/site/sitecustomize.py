"""Entry of the warm start: Python imports this module while it starts a worker's command, before the script.

The agent puts this folder in front of PYTHONPATH. The module first undoes that, so that neither the script nor its
children see it. Then it runs the `sitecustomize` of the user, if there is one, and does what the agent asked for:

    record:FD   report the imports of this worker on a pipe
    zygote:FD   import those modules, then fork workers; only the forked children return from here. This request
                arrives by elasticjob_before_site.py.
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
    before_site = sys.modules.pop("elasticjob_before_site", None)
    # An import may replace it, and also a .pth file: a zygote has one from before those.
    end = os._exit if before_site is None else before_site.LISTENER.end
    request = _restore_environment() if before_site is None else before_site.LISTENER.request
    if before_site is not None:
        before_site.LISTENER.has_entered = True
    sys.path[:] = [entry for entry in sys.path if entry != here]
    own = sys.modules.pop("sitecustomize")  # Python 2 forgets the names of a module without a reference
    is_zygote = request.startswith("zygote")
    try:
        if is_zygote and before_site is None:
            raise RuntimeError("this Python has not imported elasticjob_before_site")  # noqa: TRY301 - it ends below
        entry = before_site.LISTENER.entry if before_site is not None else None
        if before_site is None:
            entry = _load(os.path.dirname(here))  # type: ignore[no-untyped-call]
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

    # A loop over sys.modules would write to the reference count of each name there. In a forked worker, that copies
    # thousands of pages.
    package = sys.modules.pop("elasticjob_warm_start", None)
    for name in list(vars(package)) if package else ():
        sys.modules.pop("elasticjob_warm_start." + name, None)
    for path in [path for path in sys.path_importer_cache if path.startswith(folder)]:
        del sys.path_importer_cache[path]


def _load(folder):  # type: ignore[no-untyped-def]  # it returns a module
    """Return the module that carries out the request, None if it cannot be imported in a worker."""
    import sys

    if sys.version_info < (3, 8):
        return None
    sys.path.insert(0, folder)
    try:
        from elasticjob_warm_start import entry  # type: ignore[import-not-found]
    except Exception:  # noqa: BLE001 - the worker starts in any case
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
