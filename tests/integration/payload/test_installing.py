"""`--install` copies the payload as an init container does: unprivileged, again, and with a sentence when it cannot."""

import pytest

from testing.containers import AGENT, AGENT_IMAGE, MUSL, RESTRICTED, Payload, docker

pytestmark = [pytest.mark.etcd, pytest.mark.timeout(1500)]


def test_a_second_time_over_the_first_changes_nothing(payload: Payload) -> None:
    listing = (
        "sh",
        "-c",
        "cd /opt/elasticjob && find . -type f | sort | xargs md5sum; find . -type l -o -name '*.new'",
    )
    before = payload.run(MUSL, *listing)
    assert "copied /opt/elasticjob to /elasticjob-target in " in payload.install()
    assert payload.run(MUSL, *listing) == before
    assert "./bin/elasticjob-agent" in before
    assert ".new" not in before


def test_the_volume_may_be_copied_on_from_there(payload: Payload) -> None:
    said = payload.run(MUSL, AGENT, "--install", "/v", options=("--tmpfs", "/v:mode=1777"))
    assert "copied" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(("--install", "/no/such"), 1, "cannot copy /opt/elasticjob to /no/such: ", id="no folder"),
        pytest.param(("--install", "/opt"), 1, "Read-only file system: ", id="read-only"),
        pytest.param(("--install",), 2, "--install needs one folder", id="no target"),
    ],
)
def test_what_cannot_be_installed_is_said(payload: Payload, arguments: tuple[str, ...], code: int, said: str) -> None:
    assert payload.volume
    assert said in docker("run", "--rm", *RESTRICTED, AGENT_IMAGE, *arguments, expect=code)


def test_the_image_is_small_and_has_no_link_out_of_it(payload: Payload) -> None:
    assert payload.run(MUSL, "find", "/opt/elasticjob", "-type", "l") == ""
    kilobytes = int(payload.run(MUSL, "du", "-sk", "/opt/elasticjob").split()[0])
    assert kilobytes < 60_000
