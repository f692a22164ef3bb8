"""Rendezvous over etcd: pure plans (`plan`, `steps`, `txns`) and the two loops that carry them out.

And the interface of rendezvous in general, which an agent of `elasticjob_agent.server` needs, with its errors.
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
