"""The writer process: `python -m elasticjob_agent.keep.persist <socket> <pid of the keeper> <directory> <job>`."""

import os
import socket
import sys
from pathlib import Path

from elasticjob_agent.keep.parent_process import end_with
from elasticjob_agent.keep.persist.job_dir import JobDir
from elasticjob_agent.keep.persist.writer import Writer, yield_to_training


def main(fd: int, keeper: int, shared: str, job: str) -> None:
    """Serve the keeper with this process id on the inherited socket `fd`, until it ends."""
    end_with(keeper)
    yield_to_training()
    Writer(socket.socket(fileno=fd), JobDir(Path(shared), job)).run()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
