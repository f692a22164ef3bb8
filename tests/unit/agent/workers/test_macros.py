"""Macros in arguments and prefixes: what is filled in, and what stays."""

import string

import pytest

from elasticjob_agent.workers.macros import fill_in, fill_in_local_rank


@pytest.mark.parametrize(
    ("argument", "filled"),
    [
        ("--rank=${local_rank}/$local_rank", "--rank=3/3"),
        ("$$local_rank", "$local_rank"),
        ("$${local_rank}", "${local_rank}"),
        ("$HOME", "$HOME"),
        ("100%", "100%"),
        ("$$", "$$"),
        ("${x}", "${x}"),
        ("$local_ranks", "$local_ranks"),
    ],
)
def test_b_004_10_and_k_004_15_only_the_local_rank_is_filled_in(argument: str, filled: str) -> None:
    assert fill_in_local_rank(argument, 3) == filled


def test_b_004_11_a_prefix_template_replaces_three_names_and_leaves_others() -> None:
    values = {"role_name": "ps", "rank": 5, "local_rank": 1}
    assert fill_in("[${role_name}:${rank}:${local_rank}:${host}:$rank:$]", values) == "[ps:5:1:${host}:$rank:$]"


@pytest.mark.parametrize(("template", "filled"), [("$$", "$"), ("$${rank}", "${rank}"), ("$$${rank}", "$5")])
def test_two_dollars_of_a_prefix_template_are_one_as_in_torchrun(template: str, filled: str) -> None:
    assert fill_in(template, {"rank": 5}) == string.Template(template).safe_substitute(rank=5) == filled
