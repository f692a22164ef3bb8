"""Names of parts: each is read as it was written, and no name leaves the volume."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.volume.paths import KeptPart, VolumePath, parse_held
from elasticjob_api.errors import RecordError
from testing.kept_steps import kept_steps

PATHS = VolumePath(Path("/keep"))
PARTS = kept_steps.flatmap(lambda step: st.builds(KeptPart, st.just(step), st.integers(0, step.parts - 1)))


@given(PARTS)
def test_a_held_part_is_found_again_by_its_path(part: KeptPart) -> None:
    assert parse_held(*PATHS.part(part).relative_to(PATHS.held).parts) == part
    assert PATHS.manifest(part).name == f"{part.index}-of-{part.step.parts}.json"


@given(PARTS)
def test_a_receipt_is_found_again_by_its_name(part: KeptPart) -> None:
    assert KeptPart.parse(PATHS.receipt(part).name) == part


@given(PARTS)
def test_no_path_of_a_part_leaves_its_directory(part: KeptPart) -> None:
    for path in (
        PATHS.part(part),
        PATHS.receipt(part),
        PATHS.kept_step(part.step),
        PATHS.incoming_of(part.step.lineage),
    ):
        assert ".." not in path.parts
        assert path.is_relative_to(PATHS.root)


@pytest.mark.parametrize(
    "name", ["", "0-of-", "0", "-of-1", "00-of-1", "1-of-1", "0-of-0", "0-of-65537", "\u0661-of-8", "a-of-2"]
)
def test_other_names_are_no_parts(name: str) -> None:
    with pytest.raises(RecordError):
        parse_held("7.abc", "12", name)


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_any_names_are_read_or_refused(lineage: str, number: str, name: str) -> None:
    try:
        part = parse_held(lineage, number, name)
    except RecordError:
        return
    assert PATHS.part(part) == PATHS.held / lineage / number / name
