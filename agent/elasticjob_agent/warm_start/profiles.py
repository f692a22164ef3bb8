"""The import profiles of one node: read one for its first workers, and write one after its own recording.

The node of rank 0 writes it: the others have recorded the same modules. They add the variables that only their ranks
set, once it is there.
"""

from collections.abc import Sequence
from typing import Protocol

from elasticjob_agent.supervisor import Command
from elasticjob_agent.warm_start.merging import add_to_profile
from elasticjob_api.import_profile import ImportProfile, command_digest, decode_profile, encode_profile

_WRITER = ("GROUP_RANK", "0")
"""The node that writes the modules, as its workers' variable."""


class ProfileStore(Protocol):
    """Keeps a profile where all nodes of a job find it."""

    async def load(self) -> tuple[bytes | None, int]:
        """Return the profile, None if there is none, and its revision: 0 if this job has not written it."""

    async def save(self, data: bytes, revision: int) -> bool:
        """Replace the job's own profile of this revision; return False if a later attempt may succeed."""


class Profiles:
    """Reads and writes the profile of one job."""

    def __init__(self, store: ProfileStore) -> None:
        self._store = store
        self.is_unwritten = False
        """Whether the last profile that was to be written has not been."""

    async def read(self, commands: Sequence[Command]) -> ImportProfile | None:
        """Return the profile that fits these workers, None if there is none."""
        data, _ = await self._store.load()
        profile = decode_profile(data) if data else None
        return profile if profile and profile.command == command_digest(commands[0].argv) else None

    async def write(self, command: Command, profile: ImportProfile) -> None:
        """Keep this profile for other nodes, or what it adds to that of the node which writes."""
        found, revision = await self._store.load()
        current = _same_command(decode_profile(found) if found else None, profile)
        variable, value = _WRITER
        if command.env.get(variable) == value:
            new = add_to_profile(profile, current) if current and revision else profile
        elif current:
            new = add_to_profile(current, profile)
        else:  # the other node has not finished its imports
            self.is_unwritten = True
            return
        data = encode_profile(new)
        if data is None or data == found or new == current:
            self.is_unwritten = False
        else:
            self.is_unwritten = not await self._store.save(data, revision)


def _same_command(found: ImportProfile | None, own: ImportProfile) -> ImportProfile | None:
    return found if found and found.command == own.command else None
