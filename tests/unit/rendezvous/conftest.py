"""How long the state machines run: a little by default, long under HYPOTHESIS_PROFILE=nightly."""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "rendezvous-ci", deadline=None, max_examples=60, stateful_step_count=40, suppress_health_check=_SLOW
)
settings.register_profile(
    "rendezvous-nightly", deadline=None, max_examples=5000, stateful_step_count=80, suppress_health_check=_SLOW
)
STATEFUL = settings.get_profile(
    "rendezvous-nightly" if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else "rendezvous-ci"
)
