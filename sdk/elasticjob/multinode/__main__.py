"""`python -m elasticjob.nodes HOST:PORT`: join a call of `launch_nodes` with this machine, and exit when it ends."""

import argparse
import logging
import sys

from elasticjob.errors import CallError
from elasticjob.multinode.launcher import join_nodes
from elasticjob_agent.launch import MainProcessError
from elasticjob_api.exit_codes import ExitCode, exit_code_of


def main() -> int:
    """Join a call; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m elasticjob.nodes",
        description=__doc__,
        epilog="The nodes share a secret: $ELASTICJOB_CALL_SECRET, or the file $ELASTICJOB_CALL_SECRET_FILE.",
    )
    parser.add_argument("rdzv_endpoint", metavar="HOST:PORT", help="rdzv_endpoint of launch_nodes")
    parser.add_argument("--nprocs", type=int, help="processes on this node (default: as on the driver)")
    parser.add_argument("--rdzv-id", default="none", help="rdzv_id of launch_nodes (default: none)")
    parser.add_argument(
        "--join-timeout", type=float, default=600.0, metavar="S", help="seconds to wait for the call (default: 600)"
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="elasticjob: %(message)s", stream=sys.stderr)
    try:
        join_nodes(given.rdzv_endpoint, nprocs=given.nprocs, rdzv_id=given.rdzv_id, join_timeout_s=given.join_timeout)
    except (CallError, ValueError, OSError) as error:
        print(f"elasticjob: {error}", file=sys.stderr)
        return ExitCode.FAILED
    except MainProcessError as error:
        return exit_code_of(-error.signal_no)
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
