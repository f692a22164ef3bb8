"""Names and sizes of a part's files: everything that could leave a directory, or fill it, is refused."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.volume.errors import PartRefused
from elasticjob_agent.keep.volume.file_names import DEPTH_LIMIT, FILE_LIMIT, check_files, directories_of


@pytest.mark.parametrize(
    "name",
    [
        *("", "/etc/passwd", "..", "../other", "a/../../b", "a//b", "a/", "./a", "a/."),
        *("a\0b", "a\nb", "\udcff", "x" * 256, "/".join("d" * (DEPTH_LIMIT + 2))),
    ],
    ids=repr,
)
def test_a_name_that_is_not_plain_is_refused_and_named(name: str) -> None:
    with pytest.raises(PartRefused, match=r"file name|is below|component"):
        check_files([(name, 1)])


@pytest.mark.parametrize("name", ["state.pt", "a b", "ä.bin", ".metadata", "...", "a/b/c", "/".join("d" * 9)])
def test_a_plain_name_is_accepted(name: str) -> None:
    check_files([(name, 0)])


def test_the_most_files_are_accepted_and_one_more_is_refused() -> None:
    files = [(f"f{number}", 1) for number in range(FILE_LIMIT)]
    check_files(files)
    with pytest.raises(PartRefused, match="10001 files"):
        check_files([*files, ("more", 1)])


@pytest.mark.parametrize("size", [-1, 1 << 63])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(PartRefused, match="has a size of"):
        check_files([("a", size)])


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(PartRefused, match="two files of one name"):
        check_files([("a", 1), ("a", 1)])


def test_a_name_that_is_a_file_and_a_directory_is_refused() -> None:
    with pytest.raises(PartRefused, match="'a/b' is both"):
        check_files([("a/b", 1), ("a/b/c", 1)])


@given(st.lists(st.tuples(st.text("ab./\0é", max_size=12), st.integers(-2, 5)), max_size=5))
def test_accepted_names_stay_below_their_directory(files: list[tuple[str, int]]) -> None:
    try:
        check_files(files)
    except PartRefused:
        return
    for name, size in files:
        assert size >= 0
        assert not name.startswith("/")
        assert not {"", ".", ".."}.intersection(name.split("/"))
        assert str(PurePosixPath(name)) == name


def test_directories_are_those_at_every_depth() -> None:
    assert directories_of(["a/b/c", "a/d", "e"]) == {"a", "a/b"}
