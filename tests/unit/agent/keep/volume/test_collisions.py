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
    found = list(conflicts([FIRST], {FIRST: manifest(one), SECOND: manifest(other)}))
    assert len(found) == expected
    assert all("different files 'a'" in each.sentence for each in found)


def test_one_number_with_two_counts_of_parts_is_a_conflict() -> None:
    other = KeptPart(KeptStep(LINEAGE, 10, 3), 1)
    found = list(conflicts([FIRST], {FIRST: manifest(), other: manifest()}))
    assert ["in 2 and in 3 parts" in each.sentence for each in found] == [True]
    assert set(found[0].steps) == {FIRST.step, other.step}, "neither of them becomes whole"


def test_steps_of_two_rounds_or_numbers_never_conflict() -> None:
    large = manifest(ManifestFile("a", 2, 1))
    others = [KeptPart(KeptStep(LINEAGE, 11, 2), 1), KeptPart(KeptStep(Lineage(4, "abc"), 10, 2), 1)]
    held = {FIRST: manifest(ManifestFile("a", 1, 1))} | dict.fromkeys(others, large)
    assert list(conflicts([FIRST], held)) == []


def test_the_newest_conflict_is_a_trouble_with_its_cure_until_a_newer_step_is_committed() -> None:
    reports: list[str] = []
    found = Conflicts(reports.append)
    assert found.trouble(None) == ""
    files = ManifestFile("a", 1, 1), ManifestFile("a", 2, 1)
    held = {FIRST: manifest(files[0]), SECOND: manifest(files[1])}
    found.note([SECOND], held)
    assert reports == [found.trouble(None)]
    assert set(found.steps) == {FIRST.step}
    assert found.trouble(KeptStep(LINEAGE, 9, 2)) == (
        "parts 1 and 0 of step 10 have different files 'a', so it is not kept; put the rank into the name of the file"
    )
    assert found.trouble(KeptStep(LINEAGE, 11, 2)) == ""


def test_a_kind_of_conflict_is_reported_once_a_round() -> None:
    reports: list[str] = []
    found = Conflicts(reports.append)
    small, large = manifest(ManifestFile("a", 1, 1)), manifest(ManifestFile("a", 2, 1))
    lineages = [LINEAGE, LINEAGE, Lineage(4, "d")]
    steps = [KeptStep(lineage, number, 2) for number, lineage in enumerate(lineages)]
    for each in steps:
        found.note([KeptPart(each, 1)], {KeptPart(each, 0): small, KeptPart(each, 1): large})
    assert ["of step 0 " in reports[0], "of step 2 " in reports[1], len(reports)] == [True, True, 2]
    assert set(found.steps) == set(steps)


@pytest.mark.parametrize(
    ("parts", "files", "collides"),
    [
        (2, [("a", 1)], False),
        (2, [("b", 1)], True),
        (2, [("a", 2)], True),
        (1, [("a", 2)], False),
    ],
)
def test_a_part_that_a_peer_offers_with_other_files_is_a_conflict(
    parts: int, files: list[tuple[str, int]], *, collides: bool
) -> None:
    found = Conflicts()
    part = KeptPart(KeptStep(LINEAGE, 10, parts), 0)
    held = {part: manifest(ManifestFile("a", 1, 1))}
    found.note_offer(part, files, held)
    assert (part.step in found.steps) is collides
    assert bool(found.trouble(KeptStep(LINEAGE, 11, parts))) is collides, "the next step has the same fault"
    assert found.trouble(KeptStep(Lineage(4, "d"), 11, parts)) == ""


def test_only_the_newest_conflicts_are_remembered() -> None:
    found = Conflicts()
    held = {FIRST: manifest(ManifestFile("a", 1, 1))}
    for number in range(200):
        part = KeptPart(KeptStep(LINEAGE, number, 2), 0)
        found.note_offer(part, [("b", 1)], {part: held[FIRST]})
    assert max(found.steps).number == 199
    assert len(found.steps) == 64
