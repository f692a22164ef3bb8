"""The samples with the highest step of a round: the progress of a job in its status and on the page."""

from collections.abc import Iterable

from elasticjob_api.records import NodeSamples


def samples_at_highest_step(samples: Iterable[NodeSamples], round_: int) -> NodeSamples | None:
    """Return the samples of this round with the highest step; None if no agent has reported progress."""
    with_progress = [each for each in samples if each.progress is not None and each.round == round_]
    return max(with_progress, key=_step, default=None)


def _step(samples: NodeSamples) -> int:
    step = samples.progress.step if samples.progress else None
    return -1 if step is None else step
