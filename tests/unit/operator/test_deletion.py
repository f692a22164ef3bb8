"""The end of a deleted job, in its order: slots emptied and pods told to go, and the keys when no pod is left."""

from dataclasses import replace

from elasticjob_api.world import Cause, State
from elasticjob_operator.actions import DeletePods, DeletePrefix, WriteSpec
from elasticjob_operator.deletion import plan_deletion
from elasticjob_operator.policy.spec_record import emptied
from tests.unit.operator.builders import SETTINGS, by_name, pod, record, running, view, world

ANOTHER = replace(SETTINGS, operator_id="another")


def test_pods_are_told_to_go_and_slots_are_emptied_while_the_keys_stay() -> None:
    at = running(0, 1)
    assert at.spec is not None
    made = plan_deletion(at, by_name(pod(0), pod(1, terminating=True)), SETTINGS)
    assert made.actions == (
        DeletePods({"j-0-a": "uid-j-0-a"}, None),
        WriteSpec(record=emptied(at.spec), spec_revision=5, world_revision=6),
    )


def test_an_emptied_map_owns_no_slot_and_is_written_once() -> None:
    empty = emptied(record(0, 1))
    assert empty.slots == {}
    assert plan_deletion(running(spec=empty), by_name(pod(0, terminating=True)), SETTINGS).actions == ()


def test_the_map_of_a_job_that_has_ended_is_left() -> None:
    at = running(0, world=world(State.SUCCEEDED, cause=Cause.SUCCEEDED))
    assert plan_deletion(at, by_name(pod(0, terminating=True)), SETTINGS).actions == ()


def test_the_keys_go_when_no_pod_is_left() -> None:
    assert plan_deletion(running(0), {}, SETTINGS).actions == (DeletePrefix(),)


def test_keys_of_another_installation_are_left_whatever_becomes_of_the_pods() -> None:
    assert plan_deletion(running(0), {}, ANOTHER).actions == ()
    made = plan_deletion(running(0), by_name(pod(0)), ANOTHER)
    assert made.actions == (DeletePods({"j-0-a": "uid-j-0-a"}, None),)


def test_keys_that_no_operator_has_written_are_left() -> None:
    assert plan_deletion(view(spec=record(0, operator=None)), {}, SETTINGS).actions == ()
    assert plan_deletion(view(spec=None, world=world()), {}, SETTINGS).actions == ()
