"""Report the progress of training to the elasticjob agent, if it reads. JSON lines to a FIFO, nothing to import.

Must never slow down or fail the training: there may be no reader, or a slow one.
"""

import json
import os


class Progress:
    """Writes to the FIFO named in ELASTICJOB_PROGRESS; does nothing without one."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._fifo: int | None = None

    def report(self, step: int, total: int, **metrics: str) -> None:
        """Report that `step` of `total` steps are done; metric values are short texts."""
        if self._path is None:
            return
        # Below 512 bytes a write to a FIFO is never torn or mixed with another's.
        line = json.dumps({"step": step, "total": total, "metrics": metrics}).encode() + b"\n"
        try:
            if self._fifo is None:
                self._fifo = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
            os.write(self._fifo, line)
        except BlockingIOError:
            # EAGAIN: the FIFO is full. The next report has newer values.
            return
        except OSError:
            # ENXIO: no process has opened it for reading. EPIPE: the reader has closed it. Either may reopen it.
            self.close()

    def close(self) -> None:
        """Close the FIFO; a later report opens it again."""
        if self._fifo is not None:
            fifo, self._fifo = self._fifo, None
            os.close(fifo)
