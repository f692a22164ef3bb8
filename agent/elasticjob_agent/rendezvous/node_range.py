"""The smallest and the largest number of nodes of a job, as torchrun writes them: `2` or `2:4`."""

from dataclasses import dataclass

from elasticjob_agent.errors import UsageError


@dataclass(frozen=True, slots=True)
class NodeRange:
    """The value of `--nnodes MIN[:MAX]`."""

    min: int
    max: int


def parse_nnodes(text: str) -> NodeRange:
    """Parse `MIN` or `MIN:MAX`; raise UsageError for any other text."""
    low, _, high = text.partition(":")
    try:
        parsed = NodeRange(int(low), int(high or low))
    except ValueError:
        raise UsageError(f"--nnodes {text}: it must be MIN or MIN:MAX, for example 2 or 2:4") from None
    if not 1 <= parsed.min <= parsed.max:
        raise UsageError(f"--nnodes {text}: MIN must be at least 1 and at most MAX")
    return parsed
