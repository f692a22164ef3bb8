"""`elasticjob-agent`: the process that a pod, or a person, starts. Here only what must come before anything heavy.

An agent is to be up at once and to be small for weeks: what it does not use it does not import.
"""

import gc
import os
import sys
from collections.abc import Callable, Mapping

from elasticjob_agent.container_init import run_as_init_if_pid1


def main() -> None:
    """Run, and exit with the code of the table."""
    run_as_init_if_pid1()
    run = load_command()
    sys.exit(run(sys.argv[1:], os.environ))


def load_command() -> Callable[[list[str], Mapping[str, str]], int]:
    """Import the agent; all of it stays, so it is no garbage to look for, neither meanwhile nor later."""
    gc.disable()
    _import_without_openssl()
    from elasticjob_agent.lazy_dataclasses import lazy_methods  # noqa: PLC0415  # as the next one

    with lazy_methods():
        from elasticjob_agent.cli.run import run  # noqa: PLC0415  # after the fork: an init needs none of it in memory

    gc.freeze()
    gc.enable()
    return run


def _import_without_openssl() -> None:
    """The agent's TLS is gRPC's, and of hashes it needs those that Python has itself: OpenSSL would be 5 MB.

    As in a Python that was built without it; for these modules only, whoever imports `ssl` afterwards has it.
    """
    left_out = [name for name in _openssl() if name not in sys.modules]
    for name in left_out:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails as if there were none
    try:
        import asyncio  # noqa: F401, PLC0415
        import hmac  # noqa: F401, PLC0415  # nothing else is imported meanwhile
    finally:
        for name in left_out:
            del sys.modules[name]


def _openssl() -> tuple[str, ...]:
    """Some systems' Python has no hashes of its own, as a matter of policy; there OpenSSL's remain."""
    import importlib.util  # noqa: PLC0415  # not in an init

    return ("ssl", "_hashlib") if importlib.util.find_spec("_sha1") else ("ssl",)


if __name__ == "__main__":
    main()
