"""Sources of random pod name suffixes and nonces, as an argument; tests pass predictable ones."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels, and no characters that look alike."""


def _random_suffix() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


def _random_nonce() -> str:
    return secrets.token_hex(4)


def new_installation_id() -> str:
    """Return a random id for an installation of the operator."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Ids:
    """Functions that return new suffixes and nonces."""

    suffix: Callable[[], str] = _random_suffix
    """Return five characters, never the same twice for one job."""
    nonce: Callable[[], str] = _random_nonce
    """Return eight characters, new in every write of the rendezvous state."""
