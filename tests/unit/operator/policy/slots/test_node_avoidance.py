"""Nodes that lost a pod: which are avoided, and for how long."""

from typing import Any

import pytest

from elasticjob_operator.model.job_state import Ledger
from elasticjob_operator.policy.slots.node_avoidance import COOL_DOWN_S, MOST, avoided_nodes, note_losses
from elasticjob_operator.policy.slots.ownership import Owner, Standing
from testing.builders import NOW_S, pod


def noted(standing: Standing, *, lost: bool = False, **fields: Any) -> tuple[str, ...]:
    ledger, each = Ledger(), pod(0, **fields)
    note_losses(
        ledger, [Owner(each.name, standing, each)], lost=frozenset({each.uid} if lost else ()), monotonic_s=NOW_S
    )
    return avoided_nodes(ledger, NOW_S)


def test_the_node_of_a_failed_or_lost_pod_is_avoided() -> None:
    assert noted(Standing.FAILED) == ("node-0",)
    assert noted(Standing.LIVE, lost=True) == ("node-0",)


@pytest.mark.parametrize("standing", [Standing.LIVE, Standing.TERMINATING, Standing.COMPLETED])
def test_the_node_of_any_other_pod_is_not(standing: Standing) -> None:
    assert noted(standing) == ()


def test_what_the_cluster_did_itself_is_no_reason() -> None:
    assert noted(Standing.FAILED, disrupted=True) == ()


def test_a_pod_that_was_on_no_node_is_no_reason() -> None:
    assert noted(Standing.FAILED, node_name="") == ()


def test_a_node_is_avoided_for_a_while() -> None:
    ledger = Ledger(avoided_until_s={"a": NOW_S + COOL_DOWN_S})
    assert avoided_nodes(ledger, NOW_S) == ("a",)
    assert avoided_nodes(ledger, NOW_S + COOL_DOWN_S) == ()
    note_losses(ledger, [], lost=frozenset(), monotonic_s=NOW_S + COOL_DOWN_S)
    assert ledger.avoided_until_s == {}


def test_of_many_the_last_ones_are_named() -> None:
    ledger = Ledger(avoided_until_s={f"n{i:02}": NOW_S + i for i in range(1, 20)})
    assert avoided_nodes(ledger, NOW_S) == tuple(f"n{i:02}" for i in range(20 - MOST, 20))
