"""Sources of random pod name suffixes and nonces, as an argument; `controller.ids` has those of the operator."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ids:
    """Functions that return new suffixes and nonces."""

    suffix: Callable[[], str]
    """Return five characters, never the same twice for one job."""
    nonce: Callable[[], str]
    """Return eight characters, new in every write of the rendezvous state."""
