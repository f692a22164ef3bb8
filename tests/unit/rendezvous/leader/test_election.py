"""The time at which each slot campaigns, and how few of a thousand do."""

import pytest

from elasticjob_agent.rendezvous.leader.election import FIRST_CAMPAIGN_S, MAX_CAMPAIGN_DELAY_S, campaign_delay_s


@pytest.mark.parametrize("is_first", [True, False])
def test_slot_zero_campaigns_at_once(*, is_first: bool) -> None:
    assert campaign_delay_s(0, is_first=is_first) == 0.0


def test_in_a_new_job_the_other_slots_give_slot_zero_time_to_start() -> None:
    assert campaign_delay_s(1, is_first=True) > FIRST_CAMPAIGN_S


@pytest.mark.parametrize("is_first", [True, False])
def test_the_lowest_slot_campaigns_first_and_none_waits_for_ever(*, is_first: bool) -> None:
    turns = [campaign_delay_s(slot, is_first=is_first) for slot in range(10_000)]
    assert turns == sorted(turns)
    assert turns[-1] == MAX_CAMPAIGN_DELAY_S


def test_of_a_thousand_agents_without_a_leader_for_half_a_second_a_few_campaign() -> None:
    assert sum(campaign_delay_s(slot, is_first=True) < 0.5 for slot in range(1000)) <= 20


def test_after_a_leader_few_campaign_before_they_can_see_the_next_one() -> None:
    assert sum(campaign_delay_s(slot, is_first=False) <= 0.01 for slot in range(1000)) <= 10
