"""The tasks that maintain the installation's own etcd."""

import asyncio
from dataclasses import dataclass

from elasticjob_operator.maintenance.leases import EtcdLeaseSweeper
from elasticjob_operator.maintenance.membership import EtcdMemberReplacer
from elasticjob_operator.maintenance.space import EtcdSpaceKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdTasks:
    """The tasks of one installation; None for each that its options do not ask for."""

    space: EtcdSpaceKeeper | None = None
    leases: EtcdLeaseSweeper | None = None
    membership: EtcdMemberReplacer | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start them in this group; only the leader does."""
        if self.membership is not None:
            tasks.create_task(self.membership.run(), name="etcd membership")
        if self.space is not None:
            tasks.create_task(self.space.run(), name="etcd space")
        if self.leases is not None:
            tasks.create_task(self.leases.run(), name="etcd leases")
