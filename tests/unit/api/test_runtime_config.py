"""The runtime config that the leader pushes to every agent: encoded and decoded, rejected when corrupt."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api.errors import RecordError
from elasticjob_api.records import SpecRecord
from elasticjob_api.runtime_config import RuntimeConfig, decode_runtime_config, encode_runtime_config, runtime_config_of

SPEC = SpecRecord(min=1, max=2, desired=2)
seconds = st.floats(0, 1e9)
terms = st.builds(
    RuntimeConfig,
    stop_signal=st.sampled_from(["SIGTERM", "SIGUSR1"]),
    graceful_shutdown_s=seconds,
    failure_grace_s=seconds,
    max_restarts=st.integers(0, 10**9),
    report_period_s=seconds,
    progress_deadline_s=seconds,
    isolation_grace_s=st.none() | seconds,
)


@given(terms)
def test_there_and_back(config: RuntimeConfig) -> None:
    assert decode_runtime_config(encode_runtime_config(config)) == config


@given(terms)
def test_they_are_those_of_the_spec_that_they_are_applied_to(config: RuntimeConfig) -> None:
    assert runtime_config_of(config.apply(SPEC)) == config
    assert replace(config.apply(SPEC), **{name: getattr(SPEC, name) for name in RuntimeConfig.__slots__}) == SPEC


def test_what_a_later_version_adds_is_not_minded() -> None:
    assert decode_runtime_config(encode_runtime_config(runtime_config_of(SPEC)) + b" more") == runtime_config_of(SPEC)


def test_what_an_earlier_version_did_not_say_is_as_by_default() -> None:
    assert decode_runtime_config(b"1 SIGTERM 30.0 5.0 3 60.0 0.0").isolation_grace_s is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"2 SIGTERM 30.0 5.0 3 60.0 0.0",
        b"1 SIGNOTHING 30.0 5.0 3 60.0 0.0",
        b"1 SIGTERM nan 5.0 3 60.0 0.0",
        b"1 SIGTERM inf 5.0 3 60.0 0.0",
        b"1 SIGTERM -1 5.0 3 60.0 0.0",
        b"1 SIGTERM 30.0 5.0 3.5 60.0 0.0",
        b"1 SIGTERM 30.0 5.0",
    ],
)
def test_corrupt_terms_are_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_runtime_config(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_terms_or_refused(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        assert runtime_config_of(decode_runtime_config(data).apply(SPEC)) == decode_runtime_config(data)
