"""Conflicts between two parts that one node has of a step."""

import pytest

from elasticjob_agent.keep.volume.collisions import Conflicts, conflicts
from elasticjob_agent.keep.volume.manifest import Manifest, ManifestFile
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import KeptStep, Lineage

LINEAGE = Lineage(3, "abc")
FIRST = KeptPart(KeptStep(LINEAGE, 10, 2), 0)
SECOND = KeptPart(KeptStep(LINEAGE, 10, 2), 1)


def manifest(*files: ManifestFile) -> Manifest:
    return Manifest(files, is_own=True)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (ManifestFile("a", 1, 1), ManifestFile("b", 1, 1), 0),
        (ManifestFile("a", 1, 1), ManifestFile("a", 1, 2), 0),
        (ManifestFile("a", 1, 1, 5), ManifestFile("a", 1, 1), 0),
        (ManifestFile("a", 1, 1, 5), ManifestFile("a", 1, 1, 5), 0),
        (ManifestFile("a", 1, 1, 5), ManifestFile("a", 1, 1, 6), 1),
        (ManifestFile("a", 1, 1), ManifestFile("a", 2, 1), 1),
    ],
)
def test_two_parts_collide_if_a_file_is_known_to_differ(one: ManifestFile, other: ManifestFile, expected: int) -> None:
    found = list(conflicts(FIRST, {FIRST: manifest(one), SECOND: manifest(other)}))
    assert len(found) == expected
    assert all("different files 'a'" in sentence for sentence in found)


def test_one_number_with_two_counts_of_parts_is_a_conflict() -> None:
    other = KeptPart(KeptStep(LINEAGE, 10, 3), 1)
    found = list(conflicts(FIRST, {FIRST: manifest(), other: manifest()}))
    assert ["in 2 and in 3 parts" in sentence for sentence in found] == [True]


def test_steps_of_two_rounds_or_numbers_never_conflict() -> None:
    large = manifest(ManifestFile("a", 2, 1))
    others = [KeptPart(KeptStep(LINEAGE, 11, 2), 1), KeptPart(KeptStep(Lineage(4, "abc"), 10, 2), 1)]
    held = {FIRST: manifest(ManifestFile("a", 1, 1))} | dict.fromkeys(others, large)
    assert list(conflicts(FIRST, held)) == []


def test_the_last_conflict_is_a_trouble_with_its_cure_while_its_step_is_held() -> None:
    found = Conflicts()
    assert found.trouble({FIRST.step}) == ""
    files = ManifestFile("a", 1, 1), ManifestFile("a", 2, 1)
    held = {FIRST: manifest(files[0]), SECOND: manifest(files[1])}
    assert list(found.note(SECOND, held)) == [found.trouble({FIRST.step})]
    assert found.trouble({FIRST.step}) == (
        "parts 1 and 0 of step 10 have different files 'a', so the step cannot be restored; "
        "put the rank or the index of the part into the name of the file"
    )
    assert found.trouble({KeptPart(KeptStep(LINEAGE, 11, 2), 0).step}) == ""


def test_a_step_without_a_conflict_ends_no_earlier_trouble_by_itself() -> None:
    found = Conflicts()
    held = {FIRST: manifest(ManifestFile("a", 1, 1)), SECOND: manifest(ManifestFile("a", 2, 1))}
    found.note(SECOND, held)
    later = KeptPart(KeptStep(LINEAGE, 11, 2), 0)
    found.note(later, held | {later: manifest(ManifestFile("a", 1, 1))})
    assert "step 10" in found.trouble({FIRST.step, later.step})
    assert found.trouble({later.step}) == ""
