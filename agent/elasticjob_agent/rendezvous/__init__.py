"""Rendezvous over etcd: `protocol` decides without I/O, `leader` and `member` act on its decisions.

The package also has the interface of any rendezvous, which an agent of `elasticjob_agent.server` needs, and its errors.
"""

from elasticjob_agent.rendezvous.errors import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
)
from elasticjob_agent.rendezvous.interface import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)
from elasticjob_agent.rendezvous.store import InMemoryStore, Store

__all__ = [
    "InMemoryStore",
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "Store",
]
