"""Whether a round has written a kept step: a sign of work, though its script reports no progress."""

from elasticjob_agent.rendezvous.protocol.keep.state_words import live_holdings
from elasticjob_api.errors import RecordError
from elasticjob_api.rendezvous_view import RendezvousView


def has_new_step(view: RendezvousView) -> bool:
    """Whether a live node holds a step of the last active round with a higher number than the restored one.

    All members have stopped and are ready, so their holdings have each step that was taken. The restored number counts,
    because a script that publishes it again at its start, and then fails, has gained nothing.
    """
    if view.state is None or view.membership is None:
        return False
    try:
        entries = view.state.kept_history().entries
    except RecordError:
        return False
    if not entries or entries[0].lineage.round != view.membership.round:
        return False
    # Behind the lineage of the round is that of the step that it restored.
    restored = entries[1].highest if len(entries) > 1 else None
    steps = (step for record in live_holdings(view).values() for step in record.steps)
    written = (step.number for step in steps if step.lineage == entries[0].lineage)
    return any(restored is None or number > restored for number in written)
