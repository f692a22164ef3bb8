"""The last report of the kept steps of a node: it ends only when the report has what is on disk.

Samples go with the session of an agent. The operator remembers the last ones that it has seen.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from elasticjob_api.records import KeepReport

_REPORT_S = 2.0
"""Seconds for the last report; without etcd there is none."""


class LastReport:
    """Waits until a report with the present state of the disk is in etcd."""

    def __init__(self, report: Callable[[], KeepReport]) -> None:
        self._report = report
        self._is_written = asyncio.Event()

    def note(self, written: KeepReport) -> None:
        """Take in a report that is in etcd now."""
        if _of_disk(written) == _of_disk(self._report()):
            self._is_written.set()

    async def wait(self, ask: Callable[[], None]) -> None:
        """Return when the report is written, or cannot be in time; `ask` has it written soon."""
        self._is_written.clear()
        ask()
        with suppress(TimeoutError):
            async with asyncio.timeout(_REPORT_S):
                await self._is_written.wait()


def _of_disk(report: KeepReport) -> tuple[int | None, str]:
    return report.persisted_step, report.persist_error
