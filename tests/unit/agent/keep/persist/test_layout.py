"""The names in the shared directory: each is read as it was written, and nothing else is."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elasticjob_agent.keep.persist import layout
from elasticjob_agent.keep.persist.errors import PersistRefused
from elasticjob_agent.keep.persist.layout import PersistedFile
from elasticjob_api.kept_steps import PersistedStep
from testing.kept_steps import persisted_steps

FILES = (PersistedFile("a/b", 5, 7), PersistedFile("c", 0, 0))


@given(persisted_steps)
def test_the_name_of_a_whole_step_is_one_component_and_is_read_as_it_was_written(step: PersistedStep) -> None:
    name = layout.whole_name(step)
    assert "/" not in name
    assert len(name.encode()) <= 255
    assert layout.parse_whole(name) == step
    assert layout.parse_unfinished(str(step)) == step


@given(st.text())
@example("step-1.run.1.n.1\n")
@example("step-1.run.1.../../etc.1")
def test_any_other_name_is_no_step(name: str) -> None:
    step = layout.parse_whole(name)
    assert step is None or layout.whole_name(step) == name
    unfinished = layout.parse_unfinished(name)
    assert unfinished is None or str(unfinished) == name


@given(st.text())
def test_the_directory_of_a_job_is_one_plain_component(job: str) -> None:
    name = layout.job_dir_name(f"/elasticjob/cli/{job}")
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 255


def test_jobs_with_similar_names_have_different_directories() -> None:
    jobs = ["/elasticjob/cli/a b", "/elasticjob/cli/a-b", "/elasticjob/c/a/b/u", "/elasticjob/c/a-b/c/u"]
    assert len({layout.job_dir_name(job) for job in jobs}) == len(jobs)


def test_a_list_of_files_is_read_as_it_was_written() -> None:
    assert layout.decode_marker(layout.encode_marker(FILES)) == FILES


@given(st.binary(max_size=200))
def test_other_bytes_are_no_list_of_files(data: bytes) -> None:
    with pytest.raises(PersistRefused):
        layout.decode_marker(data)


@pytest.mark.parametrize("name", ["01.json", "-1.json", "1.json.tmp", "1", "123456.json", "1.json\n"])
def test_only_a_number_names_the_list_of_a_part(name: str) -> None:
    assert layout.parse_marker(name) is None
    assert layout.parse_marker(layout.marker_name(70)) == 70


def test_equal_files_of_two_parts_are_one_and_different_ones_are_refused() -> None:
    assert layout.merge_parts([FILES, FILES]) == {file.name: file for file in FILES}
    with pytest.raises(PersistRefused, match="two parts have different files 'c'"):
        layout.merge_parts([FILES, (PersistedFile("c", 1, 0),)])
