"""The authority in use: exchanged while the operator runs for a renewed one of the same key, and for no other.

Another key is another authority, and an etcd that runs does not trust it: etcd reads what it trusts at its start alone.
"""

import logging

from elasticjob_operator.credentials.authority import Authority

log = logging.getLogger(__name__)


class Held:
    """`current` is what signs now."""

    def __init__(self, authority: Authority) -> None:
        self.current = authority
        self._refused = b""

    def offer(self, found: Authority) -> None:
        """What the Secret holds by now; each authority that is not taken is told of once."""
        if found.trusted == self.current.trusted:
            return
        if found.identity == self.current.identity:
            self.current = found
            log.info("took the renewed certificate of the authority")
        elif found.trusted != self._refused:
            self._refused = found.trusted
            log.warning(
                "the secret of the certificate authority has another one by now, which etcd does not trust yet; "
                "going on with the one before; the page Certificates and permissions has the steps to change over"
            )
