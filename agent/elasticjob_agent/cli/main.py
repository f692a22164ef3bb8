"""The entry point `elasticjob-agent`, which a pod or a user starts: the steps before the heavy imports.

An agent must start quickly and stay small for weeks, so it imports only modules that it uses.
"""

import gc
import os
import sys
from collections.abc import Callable, Mapping

from elasticjob_agent.container_init import run_as_init_if_pid1


def main() -> None:
    """Run the agent, and exit with a code of the table (`elasticjob_api.exit_codes`)."""
    run_as_init_if_pid1()
    run = load_command()
    sys.exit(run(sys.argv[1:], os.environ))


def load_command() -> Callable[[list[str], Mapping[str, str]], int]:
    """Import the agent and return its `run` function."""
    gc.disable()  # all imported objects stay alive: the collector need not scan them, now (disable) or later (freeze)
    _import_without_openssl()
    from elasticjob_agent.lazy_dataclasses import lazy_methods  # noqa: PLC0415  # as the next one

    with lazy_methods():
        from elasticjob_agent.cli.run import run  # noqa: PLC0415  # after the fork: the init must not load it

    gc.freeze()
    gc.enable()
    return run


def _import_without_openssl() -> None:
    """Import `asyncio` and `hmac` as in a Python without OpenSSL, which would take 5 MB of memory.

    gRPC has its own TLS, and Python's built-in hashes are enough for the agent. Modules that are imported afterwards
    can import `ssl` as usual.
    """
    left_out = [name for name in _openssl() if name not in sys.modules]
    for name in left_out:
        sys.modules[name] = None  # type: ignore[assignment]  # an import fails as if the module did not exist
    try:
        import asyncio  # noqa: F401, PLC0415
        import hmac  # noqa: F401, PLC0415  # no other module is imported meanwhile
    finally:
        for name in left_out:
            del sys.modules[name]


def _openssl() -> tuple[str, ...]:
    """Return the modules that load OpenSSL and are not needed.

    Some distributions build Python without its own hashes; there the hashes of OpenSSL remain.
    """
    import importlib.util  # noqa: PLC0415  # the init must not load it

    return ("ssl", "_hashlib") if importlib.util.find_spec("_sha1") else ("ssl",)


if __name__ == "__main__":
    main()
