"""Manifests: what is written is read again, and nothing else is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_agent.keep.volume.manifest import Manifest, ManifestFile, decode_manifest, encode_manifest
from elasticjob_agent.keep.volume.trees import FoundFile

FILES = st.builds(
    ManifestFile,
    st.text("abcäö._-", min_size=1, max_size=20).filter(lambda name: name not in {".", ".."}),
    st.integers(0, 1 << 50),
    st.integers(),
    st.none() | st.integers(0, (1 << 32) - 1),
)
MANIFESTS = st.builds(
    lambda files, is_own: Manifest(tuple(files), is_own),
    st.lists(FILES, max_size=5, unique_by=lambda file: file.name),
    st.booleans(),
)


@given(MANIFESTS)
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest)) == manifest


@given(st.binary(max_size=60))
def test_other_bytes_are_no_manifest(data: bytes) -> None:
    assert decode_manifest(data) is None


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"own": 1},
        {"files": None},
        {"files": [["a", 1, 1]]},
        {"files": [["a", True, 1, None]]},
        {"files": [["a", 1, 1, "crc"]]},
        {"files": [["../a", 1, 1, None]]},
        {"files": [["a", -1, 1, None]]},
        {"files": [{}]},
        {"files": {"a": 1}},
    ],
    ids=str,
)
def test_a_manifest_with_another_value_is_not_read(change: dict[str, Any]) -> None:
    good = json.loads(encode_manifest(Manifest((ManifestFile("a", 1, 1),), is_own=True)))
    assert decode_manifest(json.dumps(good).encode()) is not None
    assert decode_manifest(json.dumps(good | change).encode()) is None


def test_json_of_any_depth_is_no_manifest() -> None:
    assert decode_manifest(b"[" * 100_000) is None


def test_checksums_are_known_when_each_file_has_one() -> None:
    manifest = Manifest((ManifestFile("a", 1, 1), ManifestFile("b", 1, 1)), is_own=True)
    assert manifest.crcs is None
    assert manifest.with_crcs([7, None]).crcs is None
    assert manifest.with_crcs([7, 0]).crcs == (7, 0)


@pytest.mark.parametrize(
    "files",
    [
        [],
        [FoundFile("a", 2, 1, 1, 7)],
        [FoundFile("a", 1, 2, 1, 7)],
        [FoundFile("b", 1, 1, 1, 7)],
        [FoundFile("a", 1, 1, 1, 7), FoundFile("b", 1, 1, 1, 7)],
    ],
    ids=str,
)
def test_files_with_another_name_size_or_time_are_not_those_of_the_manifest(files: list[FoundFile]) -> None:
    manifest = Manifest.of([FoundFile("a", 1, 1, 1, 7)], is_own=True)
    assert manifest.is_of([FoundFile("a", 1, 1, links=2, inode=8)])
    assert not manifest.is_of(files)
