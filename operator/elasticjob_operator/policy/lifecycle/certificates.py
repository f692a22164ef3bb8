"""The time at which a job gets its certificate and its user in etcd, and each renewed certificate.

The first certificate comes before everything else if this process, or this etcd, does not know the job: otherwise etcd
rejects its pods. A renewal is due after half of the certificate's lifetime. It comes last, because nothing waits for
it.
"""

from elasticjob_operator.model.actions import IssueCertificate
from elasticjob_operator.model.snapshot import JobSnapshot
from elasticjob_operator.render.secret import render_secret


def first_certificate(snapshot: JobSnapshot) -> list[IssueCertificate]:
    """Return the action that must precede all others of the job, if one is needed."""
    known = snapshot.job_state.certified
    needed = snapshot.settings.etcd_tls and (known is None or known.store != snapshot.store)
    return [IssueCertificate(render_secret(snapshot.job))] if needed else []


def renewed_certificate(snapshot: JobSnapshot) -> list[IssueCertificate]:
    """Return the action that may follow all others of the job, if one is needed."""
    due_s = renewal_s(snapshot)
    return [IssueCertificate(render_secret(snapshot.job))] if due_s is not None and due_s <= snapshot.now_s else []


def renewal_s(snapshot: JobSnapshot) -> float | None:
    """Return when the next certificate is due; None before the first one."""
    known = snapshot.job_state.certified
    return known.renew_at_s if known is not None and known.store == snapshot.store else None
