"""PURE: what an agent must know of `P/c/spec` to join, in one line of its pod's environment.

    ELASTICJOB_SPEC="48213 6.0 1 SIGTERM 30.0 5.0 3 60.0 0.0 -"

The spec names every slot's pod; a thousand agents that each read it as they join read a million names. The operator
makes a pod only from a spec that names it. It gives the pod the rest of the spec and the revision of it. The agent's
first transaction is fenced by that revision. Once the spec has changed, the agent reads it after all.

If etcd was wiped, another spec may have the same revision. The agent then joins a slot that it does not own. The closer
ignores it, and it receives the current terms with the closer's first world.
"""

from dataclasses import dataclass

from elasticjob_api.errors import RecordError
from elasticjob_api.records import Slots
from elasticjob_api.runtime_config import Terms, decode_terms, encode_terms, terms_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """The spec without its slots, as it was at one revision."""

    revision: int
    """The mod revision of `P/c/spec`."""
    keep_alive_s: float
    terms: Terms


def brief_of(spec: Slots, revision: int) -> Brief:
    """Return the brief of `spec`."""
    return Brief(revision=revision, keep_alive_s=spec.keep_alive_s, terms=terms_of(spec))


def encode_brief(brief: Brief) -> str:
    """Revision, keep-alive in seconds, and the terms as they are in etcd, separated by spaces."""
    return f"{brief.revision} {brief.keep_alive_s!r} {encode_terms(brief.terms).decode()}"


def decode_brief(text: str) -> Brief:
    """The brief in `text`; RecordError when corrupt, or of terms that this agent does not know."""
    revision, _, rest = text.partition(" ")
    keep_alive, _, terms = rest.partition(" ")
    try:
        brief = Brief(revision=int(revision), keep_alive_s=float(keep_alive), terms=decode_terms(terms.encode()))
    except ValueError as error:
        raise RecordError(f"brief is corrupt: {error}") from error
    if brief.revision < 1 or not 0 < brief.keep_alive_s < float("inf"):
        raise RecordError(f"brief is corrupt: revision {revision}, keep-alive {keep_alive} s")
    return brief
