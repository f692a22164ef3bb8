"""The settings of Keep from options and from a pod's variables."""

from pathlib import Path

import pytest

from elasticjob_agent.cli.keep_options import parse_keep
from elasticjob_agent.cli.options import build_parser
from elasticjob_agent.errors import UsageError
from elasticjob_agent.node.keep_settings import KeepSettings, PersistSettings, TlsFiles
from elasticjob_api import constants


def keep_of(*words: str, **environment: str) -> KeepSettings | None:
    return parse_keep(build_parser({}).parse_args([*words, "train.py"]), environment)


def test_without_a_directory_nothing_is_kept() -> None:
    assert keep_of() is None


def test_a_directory_alone_has_the_defaults() -> None:
    keep = KeepSettings(directory=Path("/dev/shm"), copies=1, bandwidth=256 << 20, restore_timeout_s=120.0)
    assert keep_of("--keep-dir", "/dev/shm") == keep
    assert keep.size_limit is None


@pytest.mark.parametrize(("words", "rate"), [((), 128 << 20), (("--keep-bandwidth", "256Mi"), 256 << 20)])
def test_copies_that_are_encrypted_have_a_default_rate_of_their_own(words: tuple[str, ...], rate: int) -> None:
    files = TlsFiles(certificate="tls.crt", key="tls.key", authority="ca.crt")
    options = build_parser({}).parse_args(["--keep-dir", "/dev/shm", *words, "train.py"])
    keep = parse_keep(options, {}, tls=files)
    assert keep == KeepSettings(directory=Path("/dev/shm"), bandwidth=rate, tls=files)


def test_every_option_has_its_meaning() -> None:
    options = ("--keep-size", "8Gi", "--keep-copies", "2", "--keep-bandwidth", "0", "--keep-restore-timeout", "7.5")
    keep = keep_of("--keep-dir", "/dev/shm", *options)
    assert keep == KeepSettings(
        directory=Path("/dev/shm"), size_limit=8 << 30, copies=2, bandwidth=0, restore_timeout_s=7.5
    )


def test_a_pod_has_variables_and_an_option_wins() -> None:
    variables = {
        constants.ENV_KEEP_DIR: "/keep",
        constants.ENV_KEEP_SIZE_LIMIT: "1000",
        constants.ENV_KEEP_COPIES: "0",
        constants.ENV_KEEP_BANDWIDTH: "5",
        constants.ENV_KEEP_RESTORE_TIMEOUT: "3",
    }
    expected = {"directory": Path("/keep"), "size_limit": 1000, "bandwidth": 5, "restore_timeout_s": 3.0}
    assert keep_of(**variables) == KeepSettings(**expected, copies=0)  # type: ignore[arg-type]  # a table of fields
    assert keep_of("--keep-copies", "3", **variables) == KeepSettings(**expected, copies=3)  # type: ignore[arg-type]  # as above


def test_the_largest_number_of_the_operator_is_a_number_of_bytes() -> None:
    found = keep_of(**{constants.ENV_KEEP_DIR: "/keep", constants.ENV_KEEP_BANDWIDTH: str((1 << 63) - 1)})
    assert found is not None
    assert found.bandwidth == (1 << 63) - 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--keep-persist-every", "-1"), "--keep-persist-every -1: it must be a number of seconds above 0"),
        (("--keep-persist-keep", "0"), "--keep-persist-keep 0: it must be a whole number from 1 to 100"),
        (("--keep-persist-keep", "101"), "--keep-persist-keep 101: it must be a whole number from 1 to 100"),
        (
            ("--keep-persist-to", "/dev/shm/a/../b"),
            "--keep-persist-to /dev/shm/b: it lies in /dev/shm, which is in memory; choose a disk",
        ),
        (("--keep-size", "8 apples"), "--keep-size 8 apples: it must be a number of bytes from 1, such as 8Gi"),
        (("--keep-size", "0"), "--keep-size 0: it must be a number of bytes from 1, such as 8Gi"),
        (("--keep-bandwidth", "-1"), "--keep-bandwidth -1: it must be a number of bytes from 0, such as 8Gi"),
        (("--keep-copies", "4"), "--keep-copies 4: it must be a whole number from 0 to 3"),
        (("--keep-copies", "x"), "--keep-copies x: it must be a whole number from 0 to 3"),
        (("--keep-restore-timeout", "0"), "--keep-restore-timeout 0: it must be a number of seconds above 0"),
        (("--keep-restore-timeout", "nan"), "--keep-restore-timeout nan: it must be a number of seconds above 0"),
    ],
)
def test_a_wrong_value_is_refused(words: tuple[str, str], message: str) -> None:
    option, value = words
    with pytest.raises(UsageError) as refused:
        keep_of("--keep-dir", "/dev/shm", "--keep-persist-to=/disk", f"{option}={value}")
    assert str(refused.value) == message


@pytest.mark.parametrize("words", [("--keep-copies", "2"), ("--keep-persist-to", "/disk"), ("--keep-no-resume",)])
def test_an_option_without_a_directory_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"{words[0]} needs --keep-dir"):
        keep_of(*words)


@pytest.mark.parametrize("words", [("--keep-persist-every", "60"), ("--keep-persist-keep", "3"), ("--keep-no-resume",)])
def test_an_option_about_persisted_steps_without_their_directory_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"{words[0]} needs --keep-persist-to"):
        keep_of("--keep-dir", "/dev/shm", *words)


def persist_of(*words: str, **environment: str) -> PersistSettings | None:
    keep = keep_of("--keep-dir", "/dev/shm", *words, **environment)
    assert keep is not None
    return keep.persist


def test_steps_are_persisted_only_in_a_directory_that_is_given() -> None:
    assert persist_of() is None
    defaults = PersistSettings(directory=Path("/disk/steps"), every_s=600.0, keep=2, may_resume=True)
    assert persist_of("--keep-persist-to", "/disk/steps/") == defaults
    relative = persist_of("--keep-persist-to", "steps")
    assert relative is not None
    assert relative.directory == Path.cwd() / "steps"


def test_the_options_of_persisted_steps_win_over_the_variables() -> None:
    variables = {
        constants.ENV_KEEP_PERSIST_TO: "/mount",
        constants.ENV_KEEP_PERSIST_EVERY: "30",
        constants.ENV_KEEP_PERSIST_KEEP: "7",
        constants.ENV_KEEP_RESUME: "0",
    }
    of_pod = PersistSettings(directory=Path("/mount"), every_s=30.0, keep=7, may_resume=False)
    assert persist_of(**variables) == of_pod
    options = ("--keep-persist-to=/disk", "--keep-persist-every=2.5", "--keep-persist-keep=100")
    of_options = PersistSettings(directory=Path("/disk"), every_s=2.5, keep=100, may_resume=False)
    assert persist_of(*options, **variables) == of_options
    assert persist_of("--keep-no-resume", **{**variables, constants.ENV_KEEP_RESUME: "1"}) == of_pod


@pytest.mark.parametrize(("text", "step"), [("120", 120), ("0", 0), ("", None), ("-1", None), ("x", None)])
def test_the_operator_names_a_step_that_the_directory_must_have(text: str, step: int | None) -> None:
    found = persist_of("--keep-persist-to", "/disk", **{constants.ENV_KEEP_PERSISTED: text})
    assert found is not None
    assert found.persisted_step == step


@pytest.mark.parametrize(("step", "may_resume"), [("120", True), ("", False)])
def test_a_job_that_has_persisted_a_step_may_resume_it_though_a_new_one_may_not(step: str, *, may_resume: bool) -> None:
    variables = {constants.ENV_KEEP_RESUME: "0", constants.ENV_KEEP_PERSISTED: step}
    found = persist_of("--keep-persist-to", "/disk", **variables)
    assert found is not None
    assert found.may_resume is may_resume
