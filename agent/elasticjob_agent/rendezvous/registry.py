"""Rendezvous backends by name: `static`, `etcd`, and those that programs register."""

from collections.abc import Callable

from elasticjob_agent.rendezvous import etcd_backend, static
from elasticjob_agent.rendezvous.interface import RendezvousHandler, RendezvousParameters

RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Creators of handlers, by the name of their backend."""

    def __init__(self) -> None:
        self._makers: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Register a backend; raise ValueError if the name is empty or has another creator."""
        if not backend:
            raise ValueError("the rendezvous backend must have a name")
        if self._makers.setdefault(backend, creator) is not creator:
            raise ValueError(f"the rendezvous backend {backend!r} is registered already")

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """Return a handler of `params.backend`; raise ValueError if it is not registered."""
        maker = self._makers.get(params.backend)
        if maker is None:
            known = ", ".join(sorted(self._makers))
            raise ValueError(f"the rendezvous backend {params.backend!r} is not known; known are {known}")
        return maker(params)


rendezvous_handler_registry = RendezvousHandlerRegistry()
rendezvous_handler_registry.register("static", static.create)
rendezvous_handler_registry.register("etcd", etcd_backend.create)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Return a handler of `params.backend`; raise ValueError if it is not registered."""
    return rendezvous_handler_registry.create_handler(params)
