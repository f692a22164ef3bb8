"""Two operators that both believe they lead, with faults as for a single one; then one ends, and the job recovers.

While there are two, each may write the status. Maps, names, counts and the rendezvous state keep all invariants.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import precondition, rule

from tests.unit.operator.test_reconcile_machine import NIGHTLY, ReconcileMachine


class TwoLeadersMachine(ReconcileMachine):
    @precondition(lambda self: self.model.other is None)
    @rule()
    def another_one_leads_too(self) -> None:
        self.model.start_another()

    @precondition(lambda self: self.model.other is not None)
    @rule()
    def the_other_one_goes_on(self) -> None:
        self.model.swap()

    def _check_the_end(self) -> None:
        self.model.end_other()
        super()._check_the_end()


TestTwoLeaders = pytest.mark.timeout(3600)(TwoLeadersMachine.TestCase)  # the number of steps is the bound, not the time
TestTwoLeaders.settings = settings(
    max_examples=2000 if NIGHTLY else 40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
