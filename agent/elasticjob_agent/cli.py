"""`elasticjob-agent`: the process that a pod, or a person, starts. Here only what must come before anything heavy.

An agent is to be up at once and to be small for weeks: what it does not use it does not import.
"""

import gc
import os
import sys
from collections.abc import Callable, Mapping

from elasticjob_agent.pid_one import become_init_if_first


def main() -> None:
    """Run, and exit with the code of the table."""
    become_init_if_first()
    run = load()
    sys.exit(run(sys.argv[1:], os.environ))


def load() -> Callable[[list[str], Mapping[str, str]], int]:
    """Import the agent; all of it stays, so it is no garbage to look for, neither meanwhile nor later."""
    gc.disable()
    _import_asyncio_without_tls()
    from elasticjob_agent.quick_dataclasses import made_quickly  # noqa: PLC0415  # as the next one

    with made_quickly():
        from elasticjob_agent.command import run  # noqa: PLC0415  # after the fork: an init needs none of it in memory

    gc.freeze()
    gc.enable()
    return run


def _import_asyncio_without_tls() -> None:
    """The agent's TLS is gRPC's: Python's own would be a megabyte. As in a Python built without; for asyncio only."""
    if "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # an import of it fails as if there were none
    try:
        import asyncio  # noqa: F401, PLC0415  # nothing else is imported meanwhile
    finally:
        del sys.modules["ssl"]


if __name__ == "__main__":
    main()
