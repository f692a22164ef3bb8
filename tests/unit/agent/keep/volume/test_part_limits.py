"""The bounds of a part as a whole: what is taken fits into a message, and what is not is reported with its cure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.transfer.frames import Offer, decode, encode
from elasticjob_agent.keep.volume.errors import PartTooLargeError
from elasticjob_agent.keep.volume.file_names import DEPTH_LIMIT
from elasticjob_agent.keep.volume.manifest import Manifest, ManifestFile
from elasticjob_agent.keep.volume.part_limits import LIST_BYTES, PartLimits, list_bytes
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_api.kept_steps import KeptStep, Lineage

LINEAGE = Lineage(10**9, "abcdef0123456789")


def part_of(number: int, index: int = 0, parts: int = 2) -> KeptPart:
    return KeptPart(KeptStep(LINEAGE, number, parts), index)


def manifest(names: list[str]) -> Manifest:
    return Manifest(tuple(ManifestFile(name, 1 << 60, 1) for name in sorted(names)), is_own=True)


def names_of(count: int) -> list[str]:
    """Return names of the greatest length: about 2,300 bytes of ASCII each."""
    directory = "/".join("d" * 255 for _ in range(DEPTH_LIMIT))
    return [f"{directory}/{number:05}{'n' * 250}" for number in range(count)]


LARGEST = LIST_BYTES // list_bytes([(names_of(1)[0], 1 << 60)])


def test_the_longest_list_that_is_taken_fits_into_an_offer_and_one_more_file_is_refused() -> None:
    limits = PartLimits(None)
    part = part_of(10**15 - 1, 65_534, 65_535)
    longest = manifest(names_of(LARGEST))
    limits.check(part, longest, 0)
    offer = Offer(part, tuple((file.name, file.size) for file in longest.files), LINEAGE)
    assert decode(encode(offer)) == offer
    with pytest.raises(PartTooLargeError, match=f"{LIST_BYTES} are the most; write fewer files or shorter names"):
        limits.check(part, manifest(names_of(LARGEST + 1)), 0)


@given(
    st.lists(
        st.tuples(st.text("ab \"\\'é€😀", min_size=1, max_size=9), st.integers(0, 1 << 61)),
        unique_by=lambda each: each[0],
    )
)
def test_no_list_is_longer_in_an_offer_than_it_was_counted(files: list[tuple[str, int]]) -> None:
    offers = [encode(Offer(part_of(1), listed)) for listed in (tuple(files), ())]
    assert len(offers[0]) - len(offers[1]) <= list_bytes(files)


def test_the_trouble_has_cause_and_cure_until_a_part_takes_the_place_of_the_refused_one() -> None:
    limits = PartLimits(None)
    with pytest.raises(PartTooLargeError):
        limits.check(part_of(1), manifest(names_of(LARGEST + 1)), 0)
    assert limits.trouble.startswith("part 0 of step 1 is too large: the list of its files has ")
    limits.check(part_of(2, index=1), manifest(["a"]), 0)
    assert limits.trouble
    limits.check(part_of(2), manifest(["a"]), 0)
    assert limits.trouble == ""


def test_a_step_as_large_as_the_volume_is_taken_and_a_larger_one_is_refused_with_field_and_cure() -> None:
    mib = 1 << 20
    limits = PartLimits(16 * mib)
    part = Manifest((ManifestFile("state", 10 * mib, 1),), is_own=True)
    limits.check(part_of(1), part, 0)
    limits.check(part_of(1, index=1), part, 6 * mib)
    with pytest.raises(PartTooLargeError) as refused:
        limits.check(part_of(1, index=1), part, 6 * mib + 1)
    why = (
        "the files of the step have 17 MiB here, holes included, and the volume has 16 MiB; "
        "raise keep.sizeLimit (--keep-size), or publish smaller steps"
    )
    assert (str(refused.value), limits.trouble) == (why, f"part 1 of step 1 is too large: {why}")


def test_a_part_of_another_count_ends_the_trouble() -> None:
    limits = PartLimits(None)
    with pytest.raises(PartTooLargeError):
        limits.check(part_of(1), manifest(names_of(LARGEST + 1)), 0)
    limits.check(part_of(2, index=1, parts=3), manifest(["a"]), 0)
    assert limits.trouble == ""
