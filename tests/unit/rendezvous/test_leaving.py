"""A node with an order to leave while a call to etcd fails: its peers learn it all the same, and no agent hangs.

The verbs are explained in `sim/play.py`. The node's lease lives as long as its agent. So its peers would wait while its
workers stop: as long as they save, or for ever if they are stuck in the kernel.
"""

import pytest

from elasticjob_api.exit_codes import ExitCode
from elasticjob_api.records import SpecRecord
from tests.unit.rendezvous.sim.play import Play

HISTORIES = {
    "a lost report is repeated while the workers stop": """
        arm 1 REQUEST_LOST; sigterm 1; turn 1; is active 1
        turn 1; turn 1; runs 1 1; is forming 2 cause=NodeLeft
    """,
    "it is not repeated if only the answer was lost": """
        arm 1 ANSWER_LOST; sigterm 1; turn 1; is forming 2 cause=NodeLeft
        go 0; stopped 0; go 0; go 1; runs 1 1; look; close; is forming 2
        stopped 1; go 1; nokey 1; look; close; is active 2 members=0 restarts=0 losses=0
    """,
    "a leaving node with a lost answer does not delete the key of a new leader": """
        arm 0 ANSWER_LOST; sigterm 0; turn 0; go 1; campaign 1; go 1
        go 0; runs 0 1; go 1; look; close; is forming 2
    """,
    "a node that cannot stop is evicted as wedged, and the others continue": """
        stick 1; arm 1 REQUEST_LOST; sigterm 1; turn 1
        settle; is active 2 members=0 restarts=0; nokey 1
    """,
    "no agent waits for it after the other has finished and exited": """
        finish 0; go 0; start; go 2; sigterm 0; stick 1; arm 1 REQUEST_LOST; sigterm 1; turn 1; go 0; nokey 0
        settle; is active 2 members=2; finish 2; settle; is succeeded 2
    """,
    "it has the user's grace to save, also if another failure opens the round": """
        arm 1 REQUEST_LOST; sigterm 1; fail 0; turn 0; is forming 2 cause=WorkerFailed; see 1; turn 1
        turn 1; turn 1; go 0; stopped 0; go 0; look; close; wait 20; close; is forming 2; key 1
        stopped 1; go 1; nokey 1; look; close; is active 2 members=0 restarts=0 losses=0
    """,
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_leave_while_a_call_fails(history: str) -> None:
    made = Play(SpecRecord(min=1, max=2, desired=2, failure_grace_s=5.0, graceful_shutdown_s=30.0))
    made.run("start; start; settle; is active 1 members=0,1")
    made.run(history)


def test_without_any_answer_of_etcd_a_leaving_node_exits_when_its_workers_have_stopped() -> None:
    made = Play(SpecRecord(min=1, max=2, desired=2))
    made.run("start; start; settle; arm 1" + " REQUEST_LOST" * 9)
    made.run("sigterm 1; turn 1; turn 1; turn 1; turn 1; runs 1 1; stopped 1; turn 1")
    assert made.node("1").outcome == ExitCode.LEFT
