"""The bootstrap of a pod: encoded and decoded, rejected when corrupt."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api.bootstrap import Bootstrap, bootstrap_of, decode_bootstrap, encode_bootstrap
from elasticjob_api.errors import RecordError
from elasticjob_api.records import SlotOwner, SpecRecord
from elasticjob_api.runtime_config import runtime_config_of

SPEC = SpecRecord(min=1, max=2, desired=2, keep_alive_s=9.5, stop_signal="SIGUSR1", isolation_grace_s=4.0)
GOOD = encode_bootstrap(bootstrap_of(SPEC, 7))


@given(st.integers(1, 2**63), st.floats(0, 1e9, exclude_min=True))
def test_there_and_back(revision: int, keep_alive_s: float) -> None:
    brief = Bootstrap(revision=revision, keep_alive_s=keep_alive_s, runtime_config=runtime_config_of(SPEC))
    assert decode_bootstrap(encode_bootstrap(brief)) == brief


def test_it_is_one_short_line_however_many_slots_there_are() -> None:
    many = SpecRecord(min=1, max=2, desired=2, slots={slot: SlotOwner(f"pod-{slot}") for slot in range(1000)})
    text = encode_bootstrap(bootstrap_of(many, 7))
    assert text == "7 6.0 1 SIGTERM 30.0 5.0 3 60.0 0.0 -"


def test_what_a_later_version_adds_is_not_minded() -> None:
    assert decode_bootstrap(f"{GOOD} more") == decode_bootstrap(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "7 6.0",
        GOOD.replace("7", "x", 1),
        GOOD.replace("7", "0", 1),
        GOOD.replace("7", "-7", 1),
        GOOD.replace("9.5", "soon"),
        GOOD.replace("9.5", "0.0"),
        GOOD.replace("9.5", "nan"),
        GOOD.replace("9.5", "inf"),
        GOOD.replace(" 1 ", " 2 ", 1),
        GOOD.replace("SIGUSR1", "SIGNONE"),
    ],
)
def test_a_corrupt_one_is_refused(text: str) -> None:
    with pytest.raises(RecordError):
        decode_bootstrap(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(RecordError):
        decode_bootstrap(text)
