"""Whether an error message shows that a worker failed because a peer had crashed or stalled.

A rank that loses its connection reports the loss within milliseconds, often before the failed peer's process has ended.
A rank that gives up waiting for a peer is not to blame either. A fault of the program itself (a full disk, no memory,
a bug) must never match. A collateral failure is the root cause only if no other worker failed. The patterns match
messages of the kernel, Python, gRPC, PyTorch 2 (store, gloo, NCCL) and JAX.
"""

import re

_WORDS = (
    # the kernel and Python
    r"connection (was |has been )?(likely )?(reset|closed|refused|aborted|lost|broken|timed out)",
    r"lost (the |its )?connection|closed by (the )?(remote )?peer|peer closed|broken ?pipe",
    r"Connection(Reset|Refused|Aborted)Error|ECONNRESET|ECONNREFUSED|EPIPE|ETIMEDOUT",
    r"remote (process|host|peer) (exited|closed|has)|end of file",
    r"EOFError(?!: \w)",  # with a message of its own, the error is about a file
    # gRPC, and the store of PyTorch
    r"socket (unexpectedly )?closed|(?-i:Socket Timeout)|client socket has (timed out|failed to connect)",
    r"wait timeout after \d+ms|waiting for clients",
    # gloo
    r"gloo/transport/tcp/pair|pair closure|Timed out waiting \d+ms for (send|recv)|monitoredBarrier",
    # NCCL
    r"ncclRemoteError|NCCL communicator was aborted|NCCL timeout",
    r"collective operation timeout|due to a collective timeout",
    # JAX
    r"another task died",
)
_BLAMES_PEER = re.compile("|".join(_WORDS), re.IGNORECASE)


def blames_peer(message: str) -> bool:
    """Whether `message` blames a peer for the failure."""
    return _BLAMES_PEER.search(message) is not None
