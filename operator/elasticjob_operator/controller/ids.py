"""Chance, as an argument: endings of pod names and nonces. Tests give counted ones."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""As Kubernetes: no vowels and nothing that looks like another character."""


def _random_suffix() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


def _random_nonce() -> str:
    return secrets.token_hex(4)


def new_installation_id() -> str:
    """Return a random id for an installation of the operator."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Ids:
    """Where names and nonces come from."""

    suffix: Callable[[], str] = _random_suffix
    """Five characters; never the same twice for one job."""
    nonce: Callable[[], str] = _random_nonce
    """Eight characters, new in every write of the world."""
