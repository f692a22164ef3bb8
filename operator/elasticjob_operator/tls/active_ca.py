"""The certificate authority in use; it can be replaced at run time by a renewed certificate for the same key.

Another key is another authority. A running etcd does not trust it: etcd reads its trust anchors only when it starts.
"""

import logging

from elasticjob_operator.tls.ca import CertificateAuthority

log = logging.getLogger(__name__)


class ActiveCA:
    """The certificate authority in use: `current`."""

    def __init__(self, ca: CertificateAuthority) -> None:
        self.current = ca
        self._rejected = b""

    def update(self, found: CertificateAuthority) -> None:
        """Use the authority found in the Secret if it has the same key; each rejected one is logged once."""
        if found.trusted == self.current.trusted:
            return
        if found.identity == self.current.identity:
            self.current = found
            log.info("using the renewed certificate of the authority")
        elif found.trusted != self._rejected:
            self._rejected = found.trusted
            log.warning(
                "the Secret of the certificate authority has a new authority, which etcd does not trust yet. The old "
                "one remains in use. The page Certificates and permissions has the steps to change over"
            )
