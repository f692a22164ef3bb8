"""The files of imported modules, compared again: any text may be in the place of a path."""

from pathlib import Path

import pytest

from elasticjob_agent.user_python.warm_start.elasticjob_warm_start.import_check import ImportCheck


@pytest.mark.parametrize("path", ["/a\ud800", "/a\0b", "", "/" + "a" * 100_000, "/a" * 100_000, "\udcff"])
def test_a_path_that_no_file_can_have_is_a_changed_file(path: str, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("")
    files = {str(file): file.stat().st_mtime_ns}
    assert not ImportCheck(files=files, top_level=[], folders=[]).first_changed()
    assert ImportCheck(files={**files, path: 0}, top_level=[], folders=[]).first_changed()
    assert ImportCheck(files={path: 0, **files}, top_level=[], folders=[]).first_changed()
