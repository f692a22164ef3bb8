"""The part of `P/c/spec` that an agent needs to join, in one line of its pod's environment.

    ELASTICJOB_SPEC="48213 6.0 1 SIGTERM 30.0 5.0 3 60.0 0.0 -"

The spec record names the pod of every slot. If each of a thousand agents read it to join, they would read a million
names. The operator creates a pod only from a spec that names it. It gives the pod the rest of the spec, and the
revision of the spec. The agent's first transaction is fenced by that revision. If the spec has changed since, the
agent reads it.

If etcd was wiped, another spec may have the same revision. The agent then joins a slot that it does not own. The leader
ignores it, and it receives the current runtime config with the first state that the leader writes.
"""

from dataclasses import dataclass

from elasticjob_api.errors import RecordError
from elasticjob_api.records import SpecRecord
from elasticjob_api.runtime_config import RuntimeConfig, decode_runtime_config, encode_runtime_config, runtime_config_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """The spec without its slots, as it was at one revision."""

    revision: int
    """The mod revision of `P/c/spec`."""
    keep_alive_s: float
    runtime_config: RuntimeConfig


def bootstrap_of(spec: SpecRecord, revision: int) -> Bootstrap:
    """Return the bootstrap of `spec`."""
    return Bootstrap(revision=revision, keep_alive_s=spec.keep_alive_s, runtime_config=runtime_config_of(spec))


def encode_bootstrap(bootstrap: Bootstrap) -> str:
    """Return revision, keep-alive in seconds, and the runtime config as it is in etcd, separated by spaces."""
    return f"{bootstrap.revision} {bootstrap.keep_alive_s!r} {encode_runtime_config(bootstrap.runtime_config).decode()}"


def revision_word(text: str) -> str:
    """Return the first word of an encoded bootstrap: the revision, which may be corrupt."""
    return text.partition(" ")[0]


def decode_bootstrap(text: str) -> Bootstrap:
    """Return the bootstrap in `text`; RecordError if it is corrupt, or its runtime config is of another version."""
    revision, _, rest = text.partition(" ")
    keep_alive, _, config = rest.partition(" ")
    try:
        bootstrap = Bootstrap(
            revision=int(revision),
            keep_alive_s=float(keep_alive),
            runtime_config=decode_runtime_config(config.encode()),
        )
    except ValueError as error:
        raise RecordError(f"bootstrap is corrupt: {error}") from error
    if bootstrap.revision < 1 or not 0 < bootstrap.keep_alive_s < float("inf"):
        raise RecordError(f"bootstrap is corrupt: revision {revision}, keep-alive {keep_alive} s")
    return bootstrap
