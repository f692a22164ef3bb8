"""PURE: how long a slot waits for its next pod when its pods go as soon as they come, for reasons that do not count.

Pods that the cluster or a person removes are never charged, so no budget ends such a loop. The first `FREE` pods in a
row of which none lasted are replaced at once: no drain and no person is that quick. Each later replacement waits twice
as long as the one before, as with a kubelet's crash loop. A pod that has run for `LASTED_S` ends the row. A pod that
failed and counts does not wait: backoffLimit ends the loop. A pod that was never created is not in the row: the
creation itself backs off (`creation_backoff`).
"""

from collections.abc import Mapping
from dataclasses import replace

from elasticjob_operator.model.slot_history import Course
from elasticjob_operator.policy.slots.ownership import Owner, Standing

FREE = 4
"""Pods of a slot that may go in a row before the next one has to wait."""
LASTED_S = 10.0
"""A pod that has run for so long has lasted."""
LONGEST_S = 300.0
HELD_BACK = "ReplacementBackOff"
"""The reason in the status while a slot waits: a process that begins then has no memory, but it knows this."""

_OVER = frozenset({Standing.GONE, Standing.TERMINATING, Standing.FAILED, Standing.COMPLETED})


def wait_s(brief: int) -> float:
    """Return how long the next pod waits after so many in a row that did not last."""
    return 0.0 if brief <= FREE else min(LONGEST_S, 2.0 ** min(brief - FREE - 1, 30))


def courses_of(
    before: Mapping[int, Course] | None, owners: Mapping[int, Owner], monotonic_s: float, *, now_s: float, said: str
) -> dict[int, Course]:
    """The course of every slot that there is; without any `before`, `said` is the reason in the job's status.

    The API server's wall clock says since when a pod runs (`now_s` is compared with it); the rest is monotonic.
    """
    known = before or {}
    first = FREE if before is None and said == HELD_BACK else 0
    return {slot: _followed(known.get(slot), owner, monotonic_s, now_s, first) for slot, owner in owners.items()}


def _followed(before: Course | None, owner: Owner, monotonic_s: float, now_s: float, first: int) -> Course:
    course = before or Course(pod=owner.name, brief=first)
    if course.pod != owner.name:  # its successor; if nobody has seen it go, it went for a reason of our own
        brief = 0 if course.over_at_s is None and _lasted(course, monotonic_s) else course.brief
        course = Course(pod=owner.name, brief=brief)
    if course.over_at_s is not None:
        return course
    if owner.standing in _OVER:
        brief = 0 if _lasted(course, monotonic_s) else course.brief + 1
        return replace(course, over_at_s=monotonic_s, over_time_s=now_s, brief=brief)
    if course.runs_since_s is None and owner.pod is not None and owner.pod.phase == "Running":
        ran_s = max(0.0, now_s - (owner.pod.running_since_s or now_s))
        return replace(course, runs_since_s=monotonic_s - ran_s)
    return course


def _lasted(course: Course, monotonic_s: float) -> bool:
    return course.runs_since_s is not None and monotonic_s - course.runs_since_s >= LASTED_S


def waiting(courses: Mapping[int, Course] | None, monotonic_s: float) -> dict[int, float]:
    """Slot → when its next pod may come (monotonic clock), of those that have to wait for it."""
    over = ((slot, course.over_at_s, course.brief) for slot, course in (courses or {}).items())
    due = ((slot, at_s + wait_s(brief)) for slot, at_s, brief in over if at_s is not None)
    return {slot: at_s for slot, at_s in due if at_s > monotonic_s}
