"""`launch_nodes` and `join_nodes`: a call's arguments, and the one place where its end becomes results or an error.

The asker's node and those of its guests are ordinary nodes of the rendezvous, whose workers are commands: `worker`,
with the function in a file. So ranks, restarts, lost nodes and joiners are what they are for every other job.
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
from elasticjob.multinode.driver import LaunchRequest, run_driver
from elasticjob.multinode.join import join
from elasticjob.multinode.node_config import CallContext, rendezvous_address
from elasticjob.multinode.secret import find_secret
from elasticjob_agent.cli.options import UsageError
from elasticjob_agent.cli.values import parse_nnodes
from elasticjob_agent.launch import MainProcessError
from elasticjob_agent.rendezvous.errors import RendezvousError
from elasticjob_agent.supervisor import SupervisorError
from elasticjob_etcd.errors import EtcdError

JOIN_TIMEOUT_S = 600.0

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
    """Run `fn(*args)` in `nprocs` processes on each of several nodes, this one among them; every rank's result.

    The other nodes call `join_nodes(rdzv_endpoint)`. Each process has torchrun's environment (RANK, WORLD_SIZE,
    MASTER_ADDR, …). A node that joins or is lost within `nnodes` begins a new round: the function starts anew on
    every rank, and only results of the round that lasts count.

    Args:
        fn: importable by its name on every node, or defined in the main script, which must be there too.
        args: for every rank the same; pickled once, sent to each node once.
        nprocs: processes per node.
        nnodes: how many nodes: "2", or "1:4" for from one to four.
        rdzv_endpoint: HOST:PORT where nodes meet. If HOST is this machine and nothing listens there, an etcd is
            started there for the call; else it is an etcd's. On a loopback address one that is started has no port,
            and nodes of this user alone find it. Empty, for one node: one of its own.
        rdzv_id: tells calls at one endpoint apart.
        max_restarts: failures of ranks after which the call is tried anew; lost nodes are not counted.
        join_timeout_s: seconds for the least number of nodes to come together, at the start and after a loss.
        last_call_timeout_s: seconds to wait for more nodes at the start, from when there are enough; 0: do not wait.
            A node that comes later is still taken in, with a new round.
        max_result_bytes: the most that one rank's pickled result may have; they come over TCP from each rank's node
            straight to this one, not through etcd, and wait in a temporary folder.
        secret: shared by all nodes, 16 characters at least; nothing is unpickled from one that does not have it. None:
            $ELASTICJOB_CALL_SECRET, the file $ELASTICJOB_CALL_SECRET_FILE, or, if nodes meet on the loopback interface,
            a file of this user's. With none of them, whoever can read the nodes' etcd can take part.

    Returns:
        Global rank → result, in order of ranks.

    Raises:
        CallFailed: a rank failed for good; with the tracebacks of all that failed in the last round.
        TooFewNodes: not enough nodes came in time.
        NoRendezvous: etcd cannot be reached or started, or this rdzv_id is being called for.
        MainProcessError: SIGINT, SIGTERM, SIGQUIT or SIGHUP; all nodes have stopped, or will within seconds.
        ValueError: the arguments do not go together.
    """
    nodes = _nodes(nnodes)
    if nodes[1] > 1 and not rdzv_endpoint:
        raise ValueError(f"nnodes={nnodes!r} needs rdzv_endpoint='HOST:PORT', where the other nodes find this one")
    if nprocs < 1 or max_restarts < 0:
        raise ValueError(f"nprocs={nprocs} must be at least 1, and max_restarts={max_restarts} at least 0")
    content = serialization.pickle_call(fn, args)
    terms = protocol.CallSpec(
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
    return _run(lambda context: run_driver(LaunchRequest(terms, content, rdzv_endpoint, rdzv_id, shared), context))


def join_nodes(
    rdzv_endpoint: str,
    *,
    nprocs: int | None = None,
    rdzv_id: str = "none",
    join_timeout_s: float = JOIN_TIMEOUT_S,
    secret: str | None = None,
) -> None:
    """Take part in a call of `launch_nodes` as one more node; return when it has its results.

    What is run comes from the asker: join only those you would let run code here.

    Args:
        rdzv_endpoint: as the asker has it.
        nprocs: processes on this node; None: as many as on the asker's.
        rdzv_id: as the asker has it.
        join_timeout_s: seconds to wait for the call.
        secret: as the asker has it; nothing is taken from an asker that does not have it.

    Raises:
        CallFailed: the call has failed.
        CallerGone: the asker's process or machine is gone, or cannot be reached.
        NoRendezvous: nobody called in time.
        MainProcessError: a signal; this node has left, the others go on.
    """
    name = _run_name(rdzv_id)
    shared = _secret(secret, rdzv_endpoint)
    address = rendezvous_address(rdzv_endpoint)
    _run(lambda context: join(address, name, shared, context, nprocs=nprocs, join_timeout_s=join_timeout_s))


def _run(live: Callable[[CallContext], Coroutine[Any, Any, T]]) -> T:
    """Live in a loop of this thread and a folder that goes at the end; errors of the layers below become ours."""
    _refuse_a_running_loop()
    with tempfile.TemporaryDirectory(prefix="elasticjob-") as folder:
        context = CallContext(Path(folder))
        try:
            return asyncio.run(live(context))
        except UsageError as error:
            raise NoRendezvous(str(error)) from error
        except (EtcdError, RendezvousError) as error:
            raise NoRendezvous(f"the nodes cannot meet: {error}") from error
        except SupervisorError as error:
            raise CallError(f"the workers of this node cannot be started: {error}") from error
        finally:
            if context.received_signals:  # whatever else it was: this process was asked to end
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
    except RuntimeError:  # as it should be
        return
    raise RuntimeError(
        "this thread runs an event loop, as in a notebook, and a call over several nodes would block it: "
        "await asyncio.to_thread(elasticjob.launch_nodes, …)"
    )


def _nodes(text: str) -> tuple[int, int]:
    try:
        found = parse_nnodes(text)
    except UsageError as error:
        raise ValueError(f"nnodes={text!r} must be 'MIN' or 'MIN:MAX', as '2' or '1:4'") from error
    return found.min, found.max


def _run_name(rdzv_id: str) -> str:
    if not rdzv_id or "/" in rdzv_id:
        raise ValueError(f"rdzv_id={rdzv_id!r} must be a name without a slash")
    return rdzv_id
