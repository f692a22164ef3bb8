"""The worker of one rank: it runs the function, sends the result to the driver, and exits.

It exits with 0 only when the driver has the whole result, so a job that succeeded has all results. The end of a
function is one of the kinds in `supervisor.function_child`. Nothing here needs etcd or a cluster.
"""

import json
import os
import pickle
import secrets
import signal
import socket
import sys
import time
import traceback
from typing import IO, NamedTuple

from elasticjob.multinode.authentication import (
    CHALLENGE_BYTES,
    LINE_BYTES,
    AuthenticationError,
    Authenticator,
    require_challenge,
)
from elasticjob.multinode.protocol import ACK, HELLO, RESULT, RESULT_HELLO, Hello, line_of
from elasticjob.multinode.serialization import unpickle_call
from elasticjob_agent.supervisor import function_worker as ends

ENV_CALL = "ELASTICJOB_CALL"
"""Variable with the path of the call's file: a line with the driver's address, then the pickled function."""
_DIAL_S = 5.0
_DELIVERY_TIMEOUT_S = 30.0
"""Seconds to try a driver that does not answer; a node that lost its driver stops its workers earlier."""
_PAUSE_S = 0.2


class _End(NamedTuple):
    """The end of the function."""

    kind: str
    payload: bytes
    code: int
    """The exit code; negative for the signal to die by."""


def main() -> None:
    """Run the worker; never return."""
    with open(os.environ.pop(ENV_CALL), "rb") as file:  # noqa: PTH123  # pathlib would slow the start
        where = json.loads(file.readline())
        end = _limit_size(_run(file), where["max_result_bytes"])
    delivered = _deliver(end, where)
    sys.stdout.flush()
    if end.code < 0:
        signal.signal(-end.code, signal.SIG_DFL)
        os.kill(os.getpid(), -end.code)
    sys.exit(end.code if delivered or end.code else 1)


def _run(file: IO[bytes]) -> _End:
    try:
        fn, args = unpickle_call(file)
    except BaseException as error:  # noqa: BLE001  # any error of the user's import is reported
        return _failed(ends.NOT_STARTED, error)
    try:
        value = fn(*args)
    except SystemExit as error:
        return _exit_end(error)
    except KeyboardInterrupt as error:
        return _End(ends.INTERRUPTED, ends.describe(error), -signal.SIGINT)
    except BaseException as error:  # noqa: BLE001  # any error is reported to the driver
        return _failed(ends.RAISED, error)
    try:
        return _End(ends.VALUE, pickle.dumps(value), 0)
    except BaseException as error:  # noqa: BLE001  # a user's __reduce__ may raise anything
        return _failed(ends.UNPICKLABLE, error)


def _exit_end(error: SystemExit) -> _End:
    if error.code is None or (isinstance(error.code, int) and error.code & 0xFF == 0):
        return _End(ends.VALUE, pickle.dumps(None), 0)
    if not isinstance(error.code, int):
        print(error.code, file=sys.stderr)
    return _End(ends.EXITED, ends.describe(error), error.code & 0xFF if isinstance(error.code, int) else 1)


def _failed(kind: str, error: BaseException) -> _End:
    from elasticjob_agent.multiprocessing.errors import get_error_handler  # noqa: PLC0415  # takes 50 ms, and only failures need it

    traceback.print_exception(error)
    get_error_handler().record_exception(error)  # for the agent, whose failure record names the root cause
    return _End(kind, ends.describe(error), 1)


def _limit_size(end: _End, most: int) -> _End:
    """Return the end, or a failure with the cure if the result is too large."""
    if end.kind != ends.VALUE or len(end.payload) <= most:
        return end
    cure = "give launch_nodes a higher max_result_bytes, or write it to files and return their names"
    return _failed(
        ends.UNPICKLABLE, ValueError(f"the result has {len(end.payload):,} bytes, of at most {most:,}; {cure}")
    )


def _deliver(end: _End, where: dict[str, object]) -> bool:
    """Send the result until the driver has it or the time is over; return whether it has it."""
    hello = Hello(
        nonce=secrets.token_hex(16),
        kind=RESULT,
        host=socket.gethostname(),
        round=int(os.environ["ELASTICJOB_ROUND"]),
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        outcome=end.kind,
        size=len(end.payload),
    )
    until = time.monotonic() + _DELIVERY_TIMEOUT_S
    while True:
        try:
            return _send(hello, end.payload, (str(where["host"]), int(str(where["port"]))), str(where["key"]))
        except OSError as error:
            if time.monotonic() >= until:
                print(
                    f"rank {hello.rank}: {hello.host} could not send its result to the driver at {where['host']}:"
                    f"{where['port']}: {error}; check that this node can reach that address",
                    file=sys.stderr,
                )
                return False
        time.sleep(_PAUSE_S)


def _send(hello: Hello, payload: bytes, address: tuple[str, int], key: str) -> bool:
    with socket.create_connection(address, timeout=_DIAL_S) as connection, connection.makefile("rb") as answers:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            challenge = require_challenge(answers.readline(CHALLENGE_BYTES))
            connection.settimeout(None)
            for purpose, data in ((HELLO, line_of(hello)), (RESULT_HELLO, payload)):
                connection.sendall(data)
                seal = Authenticator(key, purpose, challenge)
                seal.update(data)
                connection.sendall(seal.line)
            Authenticator(key, ACK, hello.nonce.encode()).require(answers.readline(LINE_BYTES))
        except AuthenticationError as error:
            raise ConnectionError(f"the driver closed the connection before it had everything, or {error}") from error
    return True
