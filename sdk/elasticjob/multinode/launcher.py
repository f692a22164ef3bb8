"""`launch_nodes` and `join_nodes`: check the arguments of a call, and turn its end into results or an error.

The driver and the nodes that join are ordinary nodes of the rendezvous. Their workers run the command `worker`, with
the function in a file. So ranks, restarts, lost nodes and joining nodes are handled as for every other job.
"""

import asyncio
import os
import secrets
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from elasticjob.errors import CallError, NoRendezvous
from elasticjob.multinode import protocol, serialization
from elasticjob.multinode.call_secret import find_secret
from elasticjob.multinode.driver import LaunchRequest, run_driver
from elasticjob.multinode.join import join
from elasticjob.multinode.node_config import CallContext, rendezvous_address
from elasticjob_agent.errors import UsageError
from elasticjob_agent.launch import MainProcessError
from elasticjob_agent.rendezvous.errors import RendezvousError
from elasticjob_agent.rendezvous.node_range import parse_nnodes
from elasticjob_agent.supervisor import SupervisorError
from elasticjob_api.constants import JOIN_TIMEOUT_S
from elasticjob_etcd.errors import EtcdError

T = TypeVar("T")


def launch_nodes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    *,
    nnodes: str = "1",
    rdzv_endpoint: str = "",
    rdzv_id: str = "none",
    max_restarts: int = 0,
    join_timeout_s: float = JOIN_TIMEOUT_S,
    last_call_timeout_s: float = 5.0,
    max_result_bytes: int = 1 << 30,
    secret: str | None = None,
) -> dict[int, Any]:
    """Run `fn(*args)` in `nprocs` processes on this node and on others; return every rank's result.

    The other nodes call `join_nodes(rdzv_endpoint)`. Each process has torchrun's environment (RANK, WORLD_SIZE,
    MASTER_ADDR, …). A node that joins or is lost, within `nnodes`, begins a new round. The function starts again on
    every rank then, and only the results of the last round count.

    Args:
        fn: a function that is importable by its name, or defined in the main script; every node needs the code.
        args: its arguments, the same for every rank; pickled once, sent to each node once.
        nprocs: processes per node.
        nnodes: the number of nodes: "2", or "1:4" for one to four.
        rdzv_endpoint: HOST:PORT where the nodes meet. If HOST is this machine and nothing listens there, an etcd is
            started for the call; otherwise it is the address of an etcd. With a loopback address, the started etcd has
            no port, and only nodes of this user find it. Empty, for one node: an etcd of its own.
        rdzv_id: the name of the call, if several use one endpoint.
        max_restarts: how many failures of ranks restart the call; lost nodes do not count.
        join_timeout_s: seconds for the minimum of nodes to join, at the start and after a loss.
        last_call_timeout_s: seconds to wait for more nodes at the start, once there are enough; 0 for no wait.
            A node that joins later begins a new round.
        max_result_bytes: bytes of a rank's pickled result at most. Results are sent over TCP from each rank's node to
            this one, not through etcd, and are stored in a temporary folder.
        secret: a secret of all nodes, at least 16 characters; data of a node without it is never unpickled. None:
            $ELASTICJOB_CALL_SECRET, the file $ELASTICJOB_CALL_SECRET_FILE, or, if the nodes meet on the loopback
            interface, a file of this user. Without any of them, every client that can read the nodes' etcd can join.

    Returns:
        The results by global rank: rank → result, in order of ranks.

    Raises:
        CallFailed: a rank failed permanently; with the tracebacks of all ranks that failed in the last round.
        TooFewNodes: not enough nodes joined in time.
        NoRendezvous: etcd cannot be reached or started, or another driver uses this rdzv_id.
        MainProcessError: SIGINT, SIGTERM, SIGQUIT or SIGHUP; all nodes have stopped, or will stop within seconds.
        ValueError: the arguments contradict each other.
    """
    nodes = _nodes(nnodes)
    if nodes[1] > 1 and not rdzv_endpoint:
        raise ValueError(f"nnodes={nnodes!r} needs rdzv_endpoint='HOST:PORT' at which other nodes reach this one")
    if nprocs < 1 or max_restarts < 0:
        raise ValueError(f"nprocs={nprocs} must be at least 1, and max_restarts={max_restarts} at least 0")
    content = serialization.pickle_call(fn, args)
    spec = protocol.CallSpec(
        run_id=f"{_run_name(rdzv_id)}-{secrets.token_hex(4)}",
        nprocs=nprocs,
        min_nodes=nodes[0],
        max_nodes=nodes[1],
        max_restarts=max_restarts,
        join_timeout_s=join_timeout_s,
        last_call_timeout_s=last_call_timeout_s,
        max_result_bytes=max_result_bytes,
        size=len(content),
    )
    shared = _secret(secret, rdzv_endpoint) if rdzv_endpoint else None
    return _run(lambda context: run_driver(LaunchRequest(spec, content, rdzv_endpoint, rdzv_id, shared), context))


def join_nodes(
    rdzv_endpoint: str,
    *,
    nprocs: int | None = None,
    rdzv_id: str = "none",
    join_timeout_s: float = JOIN_TIMEOUT_S,
    secret: str | None = None,
) -> None:
    """Join a call of `launch_nodes` as one more node; return when the call has its results.

    The driver sends the code to run: join only a driver that may run code on this machine.

    Args:
        rdzv_endpoint: the value of the driver.
        nprocs: processes on this node; None for the value of the driver.
        rdzv_id: the value of the driver.
        join_timeout_s: seconds to wait for the call.
        secret: the value of the driver; no data of a driver without it is used.

    Raises:
        CallFailed: the call has failed.
        CallerGone: the driver's process or machine has ended, or is unreachable.
        NoRendezvous: no driver called in time.
        MainProcessError: a signal; this node has left, and the others continue.
    """
    name = _run_name(rdzv_id)
    shared = _secret(secret, rdzv_endpoint)
    address = rendezvous_address(rdzv_endpoint)
    _run(lambda context: join(address, name, shared, context, nprocs=nprocs, join_timeout_s=join_timeout_s))


def _run(work: Callable[[CallContext], Coroutine[Any, Any, T]]) -> T:
    """Run `work` in a new event loop with a temporary folder; turn errors of lower layers into CallError."""
    _refuse_a_running_loop()
    with tempfile.TemporaryDirectory(prefix="elasticjob-") as folder:
        context = CallContext(Path(folder))
        try:
            return asyncio.run(work(context))
        except UsageError as error:
            raise NoRendezvous(str(error)) from error
        except (EtcdError, RendezvousError) as error:
            raise NoRendezvous(f"the nodes cannot meet: {error}") from error
        except SupervisorError as error:
            raise CallError(f"the workers of this node cannot be started: {error}") from error
        finally:
            if context.received_signals:  # a signal counts more than any other error
                raise MainProcessError(signal_no=context.received_signals[0])


def _secret(given: str | None, rdzv_endpoint: str) -> str | None:
    try:
        host = rendezvous_address(rdzv_endpoint).host
    except UsageError as error:
        raise NoRendezvous(str(error)) from error
    return find_secret(given, host, os.environ)


def _refuse_a_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # the usual case
        return
    raise RuntimeError(
        "this thread runs an event loop, as in a notebook, and the call would block it; use "
        "await asyncio.to_thread(elasticjob.launch_nodes, …)"
    )


def _nodes(text: str) -> tuple[int, int]:
    try:
        found = parse_nnodes(text)
    except UsageError as error:
        raise ValueError(f"nnodes={text!r} must be 'MIN' or 'MIN:MAX', for example '2' or '1:4'") from error
    return found.min, found.max


def _run_name(rdzv_id: str) -> str:
    if not rdzv_id or "/" in rdzv_id:
        raise ValueError(f"rdzv_id={rdzv_id!r} must be a name without a slash")
    return rdzv_id
