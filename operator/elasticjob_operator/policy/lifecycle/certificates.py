"""PURE: when a job gets its certificate and its user in etcd, and when a new certificate.

First of all when this process or this etcd knows nothing of it: without them its pods are refused. Last of all when
half of the certificate's life is over: nothing waits for that.
"""

from elasticjob_operator.model.actions import IssueCertificate
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.render.secret import render_secret


def first_certificate(snapshot: JobSnapshot) -> list[IssueCertificate]:
    """What must be done before anything else for the job."""
    known = snapshot.job_state.certified
    needed = snapshot.settings.etcd_tls and (known is None or known.store != snapshot.store)
    return [IssueCertificate(render_secret(snapshot.job))] if needed else []


def renewed_certificate(snapshot: JobSnapshot) -> list[IssueCertificate]:
    """What can wait until everything else is done."""
    due_s = renewal_s(snapshot)
    return [IssueCertificate(render_secret(snapshot.job))] if due_s is not None and due_s <= snapshot.now_s else []


def renewal_s(snapshot: JobSnapshot) -> float | None:
    """When the next certificate is due."""
    known = snapshot.job_state.certified
    return known.renew_at_s if known is not None and known.store == snapshot.store else None
