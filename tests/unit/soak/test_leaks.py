"""The soak finds what is left behind."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.job_generator import JobBroken
from tests.soak.leaks import MORE, Use, excess, require_none, strays

NEW = Use(descriptors=20, threads=8, rss_mib=90)


@pytest.mark.parametrize("what", MORE)
def test_a_process_that_holds_more_than_a_new_one_leaks(what: str) -> None:
    allowed = replace(NEW, **{what: getattr(NEW, what) + MORE[what]})
    assert excess("operator", allowed, NEW) == []
    (said,) = excess("operator", replace(allowed, **{what: getattr(allowed, what) + 1}), NEW)
    assert said.startswith(f"the operator holds {getattr(allowed, what) + 1} {what}, a new one {getattr(NEW, what)} ")


def test_what_goes_within_the_time_is_not_left_behind() -> None:
    looks = iter([["a key"], []])
    require_none("keys", lambda: next(looks), within_s=20)


def test_what_stays_is_named() -> None:
    with pytest.raises(JobBroken, match=r"^keys left behind: \['a key'\]$"):
        require_none("keys", lambda: ["a key"], within_s=0)


def test_a_process_that_outlives_its_job_is_a_stray_by_its_words_or_its_environment(tmp_path: Path) -> None:
    waits = "import sys; print(flush=True); sys.stdin.read()"
    elsewhere = {**os.environ, "ELASTICJOB_LOG_DIR": f"{tmp_path}/logs"}
    for words, environ in (([str(tmp_path / "x")], dict(os.environ)), ([], elsewhere)):
        command = [sys.executable, "-S", "-c", waits, *words]
        with subprocess.Popen(command, stdin=-1, stdout=-1, env=environ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            (found,) = strays(tmp_path, spared=[])
            assert found.startswith(f"{process.pid} ")
            assert strays(tmp_path, spared=[process.pid]) == strays(tmp_path, spared=[os.getpid()]) == []
            process.communicate()
