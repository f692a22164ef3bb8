"""Why the workers of a node do not start warm; each reason is logged once, after `not warm: `."""

import logging

log = logging.getLogger(__name__)

FIRST = "the first workers record their imports"


class ColdReasons:
    """The reasons against warm starts on one node."""

    def __init__(self) -> None:
        self.refusal = ""
        """Why no worker starts warm any more; empty while one may."""
        self.no_zygote = FIRST
        """Why there is no zygote."""
        self.last = FIRST
        """Why the last workers were not started warm; empty if they were."""
        self._logged = FIRST

    def refuse(self, reason: str) -> None:
        """Let no worker start warm any more."""
        if not self.refusal:
            self.refusal = reason
            log.info("not warm: %s", reason)

    def started(self, reason: str) -> None:
        """Record and log a start; a reason is not logged again and again."""
        self.last = reason
        if not reason:
            log.info("the workers were started warm")
        if not self.refusal:
            if reason and reason != self._logged:
                log.info("not warm: %s", reason)
            self._logged = reason

    def zygote_ended(self, reason: str) -> None:
        """Record and log why the zygote is ended, between two starts."""
        self.no_zygote = self._logged = reason
        log.info("not warm: %s", reason)
