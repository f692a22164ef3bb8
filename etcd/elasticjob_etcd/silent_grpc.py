"""Imports gRPC without its log on stderr: every module that uses gRPC takes it from here.

gRPC reports each error to its caller, and our errors name the cause. In gRPC's log a peer port that wants a certificate
is `Corruption detected`. With GRPC_VERBOSITY in the environment a user gets the log.
"""

import os

_VERBOSITY = "GRPC_VERBOSITY"
_is_set = _VERBOSITY in os.environ

os.environ.setdefault(_VERBOSITY, "NONE")
try:
    import grpc
    from grpc import aio
finally:
    if not _is_set:
        del os.environ[_VERBOSITY]  # gRPC has read it, and other processes must not inherit it

__all__ = ["aio", "grpc"]
