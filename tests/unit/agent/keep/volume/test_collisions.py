"""Conflicts between two parts that one node has of a step."""

import pytest

from elasticjob_agent.keep.volume.collisions import conflicts
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
