"""`python -m elasticjob.nodes HOST:PORT`: this machine takes part in a call of `launch_nodes`, and ends with it."""

import argparse
import logging
import sys

from elasticjob.errors import CallError
from elasticjob.multinode.launcher import join_nodes
from elasticjob_agent.launch import MainProcessError
from elasticjob_api.exit_codes import ExitCode, exit_code_of


def main() -> int:
    """Join; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m elasticjob.nodes",
        description=__doc__,
        epilog="The nodes share a secret: $ELASTICJOB_CALL_SECRET, or in the file $ELASTICJOB_CALL_SECRET_FILE.",
    )
    parser.add_argument("rdzv_endpoint", metavar="HOST:PORT", help="as launch_nodes has it")
    parser.add_argument("--nprocs", type=int, help="processes on this node (default: as many as on the asker's)")
    parser.add_argument("--rdzv-id", default="none", help="as launch_nodes has it (default: none)")
    parser.add_argument(
        "--join-timeout", type=float, default=600.0, metavar="S", help="wait so long for the call (600)"
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
