"""PURE: when a job gets its certificate and its user in etcd, and when a new certificate.

First of all when this process or this etcd knows nothing of it: without them its pods are refused. Last of all when
half of the certificate's life is over: nothing waits for that.
"""

from elasticjob_operator.model.actions import Certify
from elasticjob_operator.model.snapshot import Observed
from elasticjob_operator.render.secret import render_secret


def first_certificate(seen: Observed) -> list[Certify]:
    """What must be done before anything else for the job."""
    known = seen.ledger.certified
    needed = seen.settings.etcd_tls and (known is None or known.store != seen.store)
    return [Certify(render_secret(seen.job))] if needed else []


def renewed_certificate(seen: Observed) -> list[Certify]:
    """What can wait until everything else is done."""
    due_s = renewal_s(seen)
    return [Certify(render_secret(seen.job))] if due_s is not None and due_s <= seen.now_s else []


def renewal_s(seen: Observed) -> float | None:
    """When the next certificate is due."""
    known = seen.ledger.certified
    return known.renew_at_s if known is not None and known.store == seen.store else None
