"""The messages between an agent and its keeper about the shared directory. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from elasticjob_agent.keep.keeper.errors import ControlError
from elasticjob_agent.keep.keeper.sentences import SENTENCE
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import KeptStep, PersistedStep


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """Write these parts of a step to the shared directory, as fast as the disk allows. A DrainResult follows."""

    step: KeptStep
    indices: tuple[int, ...]
    number: int = 0
    """Chosen by the agent; the result has it, too."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """List the shared directory again. A PersistUpdate with this number follows when that has been done."""

    number: int
    """Higher than that of each earlier request."""


@dataclass(frozen=True, slots=True)
class PersistUpdate:
    """The knowledge of the shared directory; sent when one of these has changed."""

    is_listed: bool = False
    """Whether the directory could be listed since the keeper began."""
    list_number: int = 0
    """The number of the last ListRequest that came before the newest list; 0: none."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """The newest whole steps of this and of earlier runs, each with the time (ns) of its directory."""
    error: str = field(default="", metadata=SENTENCE)
    """A sentence without its full stop: why steps are not persisted at present; empty if they are."""
    failures: int = 0
    """How many writes have failed."""


@dataclass(frozen=True, slots=True)
class DrainResult:
    """The end of a drain."""

    number: int
    """That of the request."""
    error: str = field(default="", metadata=SENTENCE)


def decode_persisted(texts: Mapping[str, int]) -> dict[PersistedStep, int]:
    """Return the persisted steps of these texts; raise ControlError."""
    try:
        return {PersistedStep.parse(text): at for text, at in texts.items()}
    except RecordError as error:
        raise ControlError(f"these are no persisted steps: {error}") from error
