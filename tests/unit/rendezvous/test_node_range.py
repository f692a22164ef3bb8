"""The numbers of nodes of a command line."""

import pytest

from elasticjob_agent.errors import UsageError
from elasticjob_agent.rendezvous.node_range import NodeRange, parse_nnodes


@pytest.mark.parametrize(("text", "nodes"), [("1", NodeRange(1, 1)), ("2:4", NodeRange(2, 4)), ("3:", NodeRange(3, 3))])
def test_numbers_of_nodes(text: str, nodes: NodeRange) -> None:
    assert parse_nnodes(text) == nodes


SHAPE = "it must be MIN or MIN:MAX, for example 2 or 2:4"
RANGE = "MIN must be at least 1 and at most MAX"


@pytest.mark.parametrize(
    ("text", "why"), [("", SHAPE), ("two", SHAPE), ("1:2:3", SHAPE), ("1.5", SHAPE), ("0", RANGE), ("4:2", RANGE)]
)
def test_wrong_numbers_of_nodes_are_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_nnodes(text)
    assert str(refused.value) == f"--nnodes {text}: {why}"
