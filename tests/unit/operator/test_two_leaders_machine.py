"""Two operators that both believe they lead, each disturbed as one alone is; then one of them ends, and all is well.

While there are two, what is written into the status may be either's; maps, names, counts and the world keep all rules.
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


TestTwoLeaders = pytest.mark.timeout(3600)(TwoLeadersMachine.TestCase)  # the number of steps bounds it, not the clock
TestTwoLeaders.settings = settings(
    max_examples=2000 if NIGHTLY else 40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
