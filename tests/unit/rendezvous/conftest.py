"""How long the state machines run: a few seconds by default, long under HYPOTHESIS_PROFILE=nightly."""

import os

from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"

STATEFUL = settings(
    max_examples=5000 if NIGHTLY else 50,
    stateful_step_count=80 if NIGHTLY else 40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
