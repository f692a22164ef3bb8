"""Random ids: suffixes of pod names, nonces, installations."""

import secrets

from elasticjob_operator.model.ids import Ids

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels, and no characters that look alike."""


def random_ids() -> Ids:
    """Return the sources of random suffixes and nonces."""
    return Ids(suffix=_random_suffix, nonce=lambda: secrets.token_hex(4))


def _random_suffix() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


def new_installation_id() -> str:
    """Return a random id for an installation of the operator."""
    return secrets.token_hex(8)
