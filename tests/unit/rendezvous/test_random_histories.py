"""Many long random histories with the rules of the state machines: these are longer, those shrink better.

A seed identifies a history. A failure reports every move, so that it can be played again or become a line of a table.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from elasticjob_api.records import TombstoneReason
from tests.unit.rendezvous.conftest import NIGHTLY
from tests.unit.rendezvous.sim.wire import Fault
from tests.unit.rendezvous.test_state_machine import AgentsAlone, JobMachine, WithAnOperator

HISTORIES = 2000 if NIGHTLY else 10
"""Histories in each of the eight batches."""
MOVES = 50
CALM = {"turn": 8, "close_a_round": 4, "all_take_turns": 8, "campaign": 2, "workers_have_stopped": 3}
CALM |= {"workers_write_a_step": 6, "all_workers_write_a_step": 20, "all_parts_are_copied": 8, "a_part_is_copied": 4}
"""The weights of these moves; all others, which disturb, have weight 1."""

DRAW: Mapping[str, Callable[[random.Random], Any]] = {
    "index": lambda rng: rng.randrange(8),
    "other": lambda rng: rng.randrange(8),
    "indices": lambda rng: {rng.randrange(4) for _ in range(3)},
    "revisions": lambda rng: rng.choice([0, 1, 2, None, None]),
    "fault": lambda rng: rng.choice([None, None, *Fault]),
    "befall": lambda rng: [rng.choice([None, None, *Fault]) for _ in range(rng.randrange(3))],
    "afterwards": lambda rng: (rng.randrange(4), rng.randrange(5)),
    "passes": lambda rng: rng.randrange(1, 5),
    "seconds": lambda rng: rng.choice([0.5, 2.0, 16.0, 45.0]),
    "exit_code": lambda rng: rng.choice([1, -9]),
    "desired": lambda rng: rng.randrange(1, 5),
    "reason": lambda rng: rng.choice([TombstoneReason.REFUSED, TombstoneReason.WEDGED]),
    "fails": lambda rng: rng.random() < 0.5,
}


def play(machine: JobMachine, rng: random.Random, history: list[str]) -> None:
    """Play one history, and append each move to `history`."""
    start = {"least": rng.randrange(1, 3), "wanted": rng.randrange(2, 5), "restarts": rng.randrange(4)}
    numbers = {"step": rng.choice([0, 0, 2]), "allowed": rng.choice([(), (), (1, 2, 4), (2, 3), (3, 4)])}
    machine.begin(**start, **numbers, running=rng.random() < 0.8)
    history.append(f"begin {start} {numbers}")
    rules = {rule.function.__name__: rule for rule in machine.rules}
    names = sorted(rules)
    for name in rng.choices(names, [CALM.get(name, 1) for name in names], k=MOVES):
        if all(holds(machine) for holds in rules[name].preconditions):
            moves = {argument: DRAW[argument](rng) for argument in rules[name].arguments}
            history.append(f"{name} {moves}")
            rules[name].function(machine, **moves)
    machine.teardown()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(4))
@pytest.mark.parametrize("kind", [AgentsAlone, WithAnOperator])
def test_random_histories_keep_every_invariant(kind: type[JobMachine], batch: int) -> None:
    assert issubclass(kind, RuleBasedStateMachine)
    for seed in range(batch * HISTORIES, (batch + 1) * HISTORIES):
        history: list[str] = []
        try:
            play(kind(), random.Random(seed), history)
        except AssertionError as error:
            error.add_note("\n".join([f"seed {seed}:", *history]))
            raise
