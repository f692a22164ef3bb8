"""podReplacementPolicy Failed: no slot gets a pod while another pod of it may run."""

from elasticjob_operator.model.job_state import Ledger
from elasticjob_operator.model.pod import Pod
from elasticjob_operator.policy.slots.ownership import Owner, Standing
from elasticjob_operator.policy.slots.predecessors import slots_with_predecessor
from testing.builders import by_name, pod, spec

OWNERS = {0: Owner("j-0-new", Standing.TO_CREATE), 1: Owner("j-1-new", Standing.TO_CREATE)}


def waits(*pods: Pod, policy: str = "Failed", ledger: Ledger | None = None) -> dict[int, str]:
    return slots_with_predecessor(spec(pod_replacement_policy=policy), OWNERS, by_name(*pods), ledger or Ledger())


def test_a_slot_waits_for_each_pod_of_it_that_has_not_ended() -> None:
    assert waits(pod(0, name="j-0-old")) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", terminating=True)) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", phase="Pending")) == {0: "j-0-old"}
    assert waits(pod(0, name="j-0-old", phase="Succeeded", lingers=True)) == {0: "j-0-old"}


def test_it_does_not_wait_for_one_that_has_ended_or_is_its_own_or_is_of_another_slot() -> None:
    assert waits(pod(0, name="j-0-old", phase="Failed")) == {}
    assert waits(pod(0, name="j-0-new")) == {}
    assert waits(pod(7, name="j-7-old")) == {}


def test_without_the_policy_nothing_waits() -> None:
    assert waits(pod(0, name="j-0-old"), policy="TerminatingOrFailed") == {}


def test_it_waits_for_one_that_was_created_and_is_not_shown_yet() -> None:
    ledger = Ledger()
    ledger.sending("j-0-old", 0, 100.0)
    assert waits(ledger=ledger) == {0: "j-0-old"}
    ledger.note_shown([], 100.0 + 59.0)
    assert waits(ledger=ledger) == {0: "j-0-old"}
    ledger.note_shown(["j-0-old"], 101.0)
    assert waits(ledger=ledger) == {}


def test_a_refused_or_deleted_creation_is_not_waited_for() -> None:
    refused, deleted = Ledger(), Ledger()
    for ledger in (refused, deleted):
        ledger.sending("j-0-old", 0, 100.0)
    refused.refused("j-0-old")
    deleted.missing("j-0-old", "uid")
    assert waits(ledger=refused) == waits(ledger=deleted) == {}
