"""PURE: whether an error message shows that a worker failed because a peer had crashed or stalled.

A rank that is cut off reports it within milliseconds, often before the cause has ended. One that gives up waiting is no
more to blame. A fault of the program itself (a full disk, no memory, a bug) must never match. A victim is the root
cause only if no other worker failed. Texts are those of the kernel, Python, gRPC, PyTorch 2 (store, gloo, NCCL) and
JAX.
"""

import re

_WORDS = (
    # the kernel's and Python's
    r"connection (was |has been )?(likely )?(reset|closed|refused|aborted|lost|broken|timed out)",
    r"lost (the |its )?connection|closed by (the )?(remote )?peer|peer closed|broken ?pipe",
    r"Connection(Reset|Refused|Aborted)Error|ECONNRESET|ECONNREFUSED|EPIPE|ETIMEDOUT",
    r"remote (process|host|peer) (exited|closed|has)|end of file",
    r"EOFError(?!: \w)",  # with a text of its own it is about a file
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
    """It failed because of another, by its own account."""
    return _BLAMES_PEER.search(message) is not None
