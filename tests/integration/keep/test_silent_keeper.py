"""The question to a keeper whether it works: only a silent one is asked, however many reports a round has."""

from pathlib import Path

import pytest

from elasticjob_agent.keep import client as client_module
from elasticjob_agent.keep.keeper.messages import Answer, Message
from tests.integration.keep.keepers import WatchedClient


class CountedClient(WatchedClient):
    """A client that counts the answers of its keeper."""

    answers = 0

    def _on_event(self, message: Message) -> None:
        self.answers += isinstance(message, Answer)
        super()._on_event(message)


@pytest.mark.parametrize(("heard_s", "asked"), [(60.0, 0), (0.0, 2)], ids=["just heard", "silent"])
async def test_a_keeper_is_asked_whether_it_works_only_when_it_is_silent(
    keep_dir: Path, monkeypatch: pytest.MonkeyPatch, heard_s: float, asked: int
) -> None:
    monkeypatch.setattr(client_module, "_HEARD_S", heard_s)
    client = CountedClient(keep_dir)
    try:
        await client.start()
        before = client.answers
        client.check()
        client.check()
        await client.status()
        assert client.answers == before + asked + 1
    finally:
        await client.close()
