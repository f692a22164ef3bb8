"""Deadlines and TTLs take effect without any event: no pod runs, no agent reports, and no user changes anything.

The deadlines are later than every reconcile that the creation of the job causes. So a reconcile at that time has no
other cause than the deadline.
"""

import pytest

from elasticjob_operator.model.job_state import WATCH_DEADLINE_S
from testing.kube.jobs import waiting_job
from testing.kube.stack import KubeStack

pytestmark = pytest.mark.kube

DEADLINE_S = int(WATCH_DEADLINE_S) + 2


def test_deadlines_and_the_ttl_hold_without_any_other_event(rig: KubeStack) -> None:
    rig.start_operator()
    rig.create_job(waiting_job(rig, "life", activeDeadlineSeconds=DEADLINE_S, ttlSecondsAfterFinished=1))
    rig.create_job(waiting_job(rig, "start", startupDeadlineSeconds=DEADLINE_S, ttlSecondsAfterFinished=1))
    rig.until("both pods", lambda: len(rig.pod_names()) == 2)
    rig.until("both gone", lambda: not rig.job("life") and not rig.job("start"))
    ends = sorted(message.partition(": ")[0] for reason, message in rig.events() if reason == "Failed")
    assert ends == ["DeadlineExceeded", "StartupDeadlineExceeded"]
    rig.until("nothing left", lambda: not rig.pod_names() and not rig.etcd_keys())
