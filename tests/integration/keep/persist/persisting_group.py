"""Steps that a group of keepers trains and persists, and what is whole in its shared directory."""

from dataclasses import dataclass
from pathlib import Path

from elasticjob_agent.keep.persist.layout import job_dir_name, whole_name
from elasticjob_api.kept_steps import KeptStep, PersistedStep
from testing.waiting import aeventually
from tests.integration.keep.keeper_group import KeeperGroup
from tests.integration.keep.keepers import JOB, RUN


def path_of(shared: Path, step: KeptStep) -> Path:
    """Return the final name of a step."""
    return shared / job_dir_name(JOB) / whole_name(PersistedStep(RUN, step))


def whole_numbers(shared: Path) -> list[int]:
    """Return the numbers of the whole steps."""
    found = [path.name.split(".")[0] for path in (shared / job_dir_name(JOB)).glob("step-*")]
    return sorted(int(name.removeprefix("step-")) for name in found)


async def until_whole(shared: Path, step: KeptStep) -> Path:
    """Return the directory of a step as soon as it is whole."""
    path = path_of(shared, step)
    await aeventually(path.exists, what=f"{path} exists")
    return path


@dataclass
class Training:
    """Publishes one step after the other in the rounds of a group."""

    group: KeeperGroup
    shared: Path
    number: int = 0

    async def publish(self) -> KeptStep:
        """Publish the next step; return when it is committed."""
        self.number += 1
        self.group.publish(self.number, 1000)
        step = self.group.step(self.number)
        await self.group.until_committed(step)
        return step

    async def until_whole(self) -> KeptStep:
        """Publish until a step that was published since is whole on disk; return it."""
        published: list[KeptStep] = []

        async def has_whole() -> bool:
            published.append(await self.publish())
            return any(path_of(self.shared, step).exists() for step in published)

        is_found: bool = await aeventually(has_whole, what="a step is whole")
        assert is_found
        return max(step for step in published if path_of(self.shared, step).exists())
