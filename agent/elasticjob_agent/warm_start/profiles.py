"""The import profiles of one node: read one for its first workers, and write one after its own recording."""

from collections.abc import Sequence
from typing import Protocol

from elasticjob_agent.supervisor import Command
from elasticjob_api.import_profile import ImportProfile, command_digest, decode_profile, encode_profile

_WRITER = ("GROUP_RANK", "0")
"""The node that writes, as its workers' variable: the others have recorded the same."""


class ProfileStore(Protocol):
    """Keeps a profile where all nodes of a job find it."""

    async def load(self) -> bytes | None:
        """Return the profile, None if there is none."""

    async def save(self, data: bytes) -> bool:
        """Replace the profile; return False if a later attempt may succeed."""


class Profiles:
    """Reads and writes the profile of one job."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store
        self.is_unwritten = False
        """Whether the last profile that was to be written has not been."""

    async def read(self, commands: Sequence[Command]) -> ImportProfile | None:
        """Return the profile that fits these workers, None if there is none."""
        data = await self._store.load()
        profile = decode_profile(data) if data else None
        return profile if profile and profile.command == command_digest(commands[0].argv) else None

    async def write(self, command: Command, profile: ImportProfile) -> None:
        """Keep this profile for other nodes, if it is this node's turn and etcd has another one."""
        variable, value = _WRITER
        data = encode_profile(profile)
        if data is None or command.env.get(variable) != value:
            return
        if await self._store.load() != data:
            self.is_unwritten = not await self._store.save(data)
