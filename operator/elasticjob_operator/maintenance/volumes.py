"""Replacement of volumes of etcd's members that were lost with their node.

`policy.etcd.volumes` decides. The claim is deleted before the pod, and the StatefulSet then creates both again. The new
pod has no data, and `policy.etcd.membership` lets it join.
"""

import logging
import time
from collections.abc import Callable

from elasticjob_operator.errors import ClusterError
from elasticjob_operator.model.cluster_interface import Cluster, Object, Resource
from elasticjob_operator.policy.etcd.volumes import (
    PendingLoss,
    VolumeLoss,
    confirm_loss,
    is_unscheduled,
    loss_of,
    node_of,
)

log = logging.getLogger(__name__)


class EtcdVolumeReplacer:
    """Replaces lost volumes of the pods of one namespace; the claim of a pod is `data-POD`."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        *,
        replace_after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._replace_after_s = replace_after_s
        self._clock = clock
        self._pending_losses: PendingLoss | None = None
        self._last_refusal = ""
        """The error that was logged last; the same error is logged once."""

    def forget(self) -> None:
        """Drop all evidence of a loss, because the state of the members was unknown in between."""
        self._pending_losses = None

    async def check(self, pod: str | None) -> None:
        """Check the only pod whose member does not respond, or None, and replace its volume if that is due."""
        try:
            loss = None if pod is None else await self._loss(pod)
            before = self._pending_losses
            self._pending_losses = confirm_loss(before, loss, self._clock())
            if pod is None or self._pending_losses is None:
                return
            if self._pending_losses is not before:
                log.warning(
                    "pod %s of etcd is on no node: %s; its volume is replaced in %g s unless that changes",
                    *(pod, self._pending_losses.loss.reason, self._pending_losses.loss.confirm_after_s),
                )
            if self._pending_losses.is_due(self._clock()):
                await self._replace(pod, self._pending_losses.loss)
                self.forget()
            self._last_refusal = ""
        except ClusterError as error:
            self.forget()
            if str(error) != self._last_refusal:
                log.warning("cannot check for a lost volume of etcd, trying again: %s", error)
            self._last_refusal = str(error)

    async def _loss(self, name: str) -> VolumeLoss | None:
        pod = await self._get(Resource.POD, name)
        if not is_unscheduled(pod):
            return None
        claim = await self._get(Resource.PERSISTENT_VOLUME_CLAIM, claim_of(name))
        volume_name = str(((claim or {}).get("spec") or {}).get("volumeName") or "")
        volume = await self._cluster.get(Resource.PERSISTENT_VOLUME, "", volume_name) if volume_name else None
        node_name = node_of(claim, volume)
        node = await self._cluster.get(Resource.NODE, "", node_name) if node_name else None
        return loss_of(pod, claim, volume, node, replace_after_s=self._replace_after_s)

    async def _get(self, resource: Resource, name: str) -> Object | None:
        return await self._cluster.get(resource, self._namespace, name)

    async def _replace(self, pod: str, loss: VolumeLoss) -> None:
        """Delete the claim and the pod if they still have these uids."""
        # A pod that was scheduled meanwhile ends within its grace period.
        log.warning("replacing pod %s of etcd and its claim %s: %s", pod, claim_of(pod), loss.reason)
        if loss.claim_uid:
            claim = Resource.PERSISTENT_VOLUME_CLAIM
            await self._cluster.delete(claim, self._namespace, claim_of(pod), uid=loss.claim_uid)
        await self._cluster.delete(Resource.POD, self._namespace, pod, uid=loss.pod_uid)


def claim_of(pod: str) -> str:
    """Return the name of the claim that the StatefulSet creates for a pod."""
    return f"data-{pod}"
