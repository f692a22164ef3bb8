"""Every mistake of the list is reported in one sentence that names the cure, and nothing is started."""

import os
import socket

import pytest

from tests.integration.cli.mistakes import HERE, Mistake, text
from tests.integration.cli.runs import Cli, Ended


def read_in_order(sentence: str, parts: tuple[str, ...]) -> None:
    """Check that the sentence contains the parts, one after the other."""
    at = 0
    for part in parts:
        found = sentence.find(part, at)
        assert found >= 0, f"{part!r} is not in {sentence[at:]!r}"
        at = found + len(part)


def check(ended: Ended, mistake: Mistake) -> None:
    assert ended.err.count("\n") == 1, ended.err
    read_in_order(ended.err, tuple(mistake.expected))
    assert ended.code == mistake.code


@pytest.mark.parametrize("mistake", HERE, ids=str)
def test_a_mistake_is_reported_with_its_cure(cli: Cli, mistake: Mistake) -> None:
    if mistake.text is not None:
        (cli.folder / "job.yaml").write_text(mistake.text)
    ended = cli.end(cli.begin(*mistake.typed, env={**os.environ, **mistake.environ}))
    check(ended, mistake)
    assert not list(cli.folder.glob("runs/*/pods/*"))


def test_at_least_twenty_mistakes_are_tested() -> None:
    assert len({mistake.name for mistake in HERE}) >= 20


def test_a_port_that_is_taken_is_named(cli: Cli) -> None:
    (cli.folder / "job.yaml").write_text(text())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = cli.end(cli.begin("run", "job.yaml", "--etcd-port", port))
    read_in_order(ended.err, (f"etcd cannot listen on port {port} of this machine",))
    assert ended.code == 124


def test_a_program_that_is_not_in_the_image_is_named_with_its_path(cli: Cli) -> None:
    cli.manifest("", container={"command": ["pyhton", "train.py"]}, maxRestarts=0)
    ended = cli.run()
    assert ended.code == 127
    assert "pyhton" in ended.out
    assert "PATH" in ended.out
