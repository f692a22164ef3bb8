"""The turns of a keeper: it looks for news once for each thing that happens, and sends nothing twice."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.keeper import Keeper
from elasticjob_agent.keep.keeper.line_parser import LineParser
from elasticjob_agent.keep.keeper.messages import (
    Answer,
    BeginRequest,
    HoldingsUpdate,
    Message,
    OpenRequest,
    Request,
    StartedRequest,
    StatusRequest,
    decode_message,
    encode_request,
)
from elasticjob_agent.keep.rules.replication import RoundPlace
from elasticjob_api.kept_steps import Lineage
from tests.integration.keep.keepers import JOB, RUN
from tests.integration.keep.parts import LINEAGE, publish

STEPS = 5
NEXT = Lineage(LINEAGE.round + 1, "0000000a")


class CountedKeeper(Keeper):
    """A keeper in a thread of the test, and its agent's end of the socket."""

    turns = 0

    def __init__(self) -> None:
        self.agent, theirs = socket.socketpair()
        super().__init__(theirs, None)
        self._lines, self._received = LineParser(), list[Message]()
        self._thread = threading.Thread(target=self.run)
        self._thread.start()

    def _act_on_changes(self) -> None:
        self.turns += 1
        super()._act_on_changes()

    def ask(self, request: Request) -> list[Message]:
        """Return what the keeper has sent until its answer, which is the last one."""
        self.agent.sendall(encode_request(1, request))
        return self.receive(Answer)

    def receive(self, kind: type[Message]) -> list[Message]:
        """Return the messages up to the next one of this kind."""
        while not any(isinstance(message, kind) for message in self._received):
            self._received += map(decode_message, self._lines.feed(self.agent.recv(1 << 16)))
        count = next(n for n, message in enumerate(self._received, 1) if isinstance(message, kind))
        found, self._received = self._received[:count], self._received[count:]
        return found

    def close(self) -> None:
        """End the keeper, as the end of its agent does."""
        self.agent.close()
        self._thread.join()
        if self._steps is not None:
            self._steps.close()
            self._steps = None


@pytest.fixture
def keeper(keep_dir: Path) -> Iterator[CountedKeeper]:
    """A keeper whose workers have started."""
    with closing(CountedKeeper()) as keeper:
        for request in (
            OpenRequest(str(keep_dir), JOB, RUN),
            BeginRequest(RUN, LINEAGE, place=RoundPlace(1, 2, 1, 1, 2)),
            StartedRequest(),
        ):
            keeper.ask(request)
        yield keeper


def test_a_published_step_takes_one_turn_at_most(keeper: CountedKeeper, keep_dir: Path) -> None:
    for number in range(1, 1 + STEPS):
        publish(keep_dir / "in" / str(LINEAGE), f"step-{number}.1-of-2")
        keeper.receive(HoldingsUpdate)
    keeper.close()
    assert keeper.turns <= len(("open", "begin", "started")) + STEPS


def test_holdings_that_an_answer_has_are_not_sent_again(keeper: CountedKeeper, keep_dir: Path) -> None:
    publish(keep_dir / "in" / str(LINEAGE), "step-1.1-of-2")
    keeper.receive(HoldingsUpdate)
    (answer,) = (each for each in keeper.ask(BeginRequest(RUN, NEXT)) if isinstance(each, Answer))
    assert answer.holdings == {}
    assert not any(isinstance(each, HoldingsUpdate) for each in keeper.ask(StatusRequest()))
