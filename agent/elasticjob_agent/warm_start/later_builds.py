"""Build another zygote when a recorded worker has imported many more modules, for example after reading data.

Or when it has set a variable before an import that the zygote has done.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from elasticjob_agent.supervisor import Command, StartError, SupervisorError
from elasticjob_agent.warm_start.limits import Limits
from elasticjob_agent.warm_start.node_recording import NodeRecording
from elasticjob_agent.warm_start.node_zygote import NodeZygote
from elasticjob_agent.warm_start.zygote_builder import NotEligibleError, ReadyZygote, ZygoteBuilder

log = logging.getLogger(__name__)


class LaterBuilder:
    """Replaces the zygote of a node by larger ones."""

    def __init__(
        self,
        zygote: NodeZygote,
        builder: ZygoteBuilder,
        *,
        limits: Limits,
        fork_next: Callable[[ReadyZygote], Awaitable[None]],
        write_profile: Callable[[ReadyZygote], Awaitable[None]],
    ) -> None:
        """Replace what is in the place of `zygote`.

        Args:
            zygote: the zygote of the node.
            builder: builds the larger ones.
            limits: times and counts.
            fork_next: has a zygote fork the workers of the next round.
            write_profile: writes the imports of a zygote for other nodes.
        """
        self._zygote = zygote
        self._builder = builder
        self._limits = limits
        self._fork_next = fork_next
        self._write_profile = write_profile

    async def run(self, command: Command, recording: NodeRecording, ready: ReadyZygote) -> None:
        """Replace this zygote again and again; return once the recorded worker has ended, or another one is there."""
        limits = self._limits
        while await recording.wait_news():
            await recording.wait_complete(greeting_s=limits.greeting_s, quiet_s=limits.quiet_s)
            if self._zygote.is_building or self._zygote.ready is not ready:
                return
            if recording.module_count <= ready.recorded + limits.more_modules and not ready.find_change(recording):
                await self._note_variables(recording, ready)
                continue
            larger = await self._build(command, recording)
            if larger is None:
                return
            if self._zygote.ready is not ready:  # memory has become short
                await larger.zygote.close()
                return
            self._zygote.ready = larger
            try:
                await self._fork_next(larger)
            finally:
                await self._zygote.end(ready)
            ready = larger
            await self._write_profile(ready)

    async def _note_variables(self, recording: NodeRecording, ready: ReadyZygote) -> None:
        """Let other nodes know the variables that were changed after all imports of this zygote."""
        known = {*ready.profile.known_variables, *recording.known_variables}
        if known != {*ready.profile.known_variables}:
            ready.profile = replace(ready.profile, known_variables=tuple(sorted(known)))
            await self._write_profile(ready)

    async def _build(self, command: Command, recording: NodeRecording) -> ReadyZygote | None:
        try:
            with self._zygote.building(is_replacement=True):
                return await self._builder.build(command, recording)
        except (NotEligibleError, SupervisorError, StartError, OSError) as error:
            log.info("warm start: each worker does the later imports itself: %s", error)
            return None
