"""A connection dials again after a change of its files, and again until that has worked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elasticjob_etcd.cert_reloader import certificate_files, watch_files
from elasticjob_etcd.errors import Unavailable
from elasticjob_etcd.interface import Endpoint
from testing.waiting import aeventually


class Dialer:
    """Counts, and fails `failures` times."""

    def __init__(self) -> None:
        self.dialed = 0
        self.failures = 0

    async def redial(self) -> None:
        self.dialed += 1
        if self.failures:
            self.failures -= 1
            raise Unavailable("no")


class File:
    """A certificate's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def replace(self, text: str) -> None:
        self.remove()
        self.path.write_text(text)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


@pytest.fixture
def file(tmp_path: Path) -> File:
    made = File(tmp_path / "tls.crt")
    made.replace("one")
    return made


@pytest.fixture
async def dialer(file: File) -> AsyncIterator[Dialer]:
    made = Dialer()
    task = asyncio.create_task(watch_files([str(file.path)], made.redial, check_s=0.01))
    await asyncio.sleep(0)  # it has looked once
    yield made
    task.cancel()
    await asyncio.wait({task})


async def test_replaced_files_are_dialed_with_once(file: File, dialer: Dialer) -> None:
    file.replace("another one")
    await aeventually(lambda: dialer.dialed, what="a dial")
    file.replace("a third")
    await aeventually(lambda: dialer.dialed == 2, what="a second dial, and no more")


async def test_what_cannot_be_used_is_tried_again(file: File, dialer: Dialer) -> None:
    dialer.failures = 2
    file.replace("another one")
    await aeventually(lambda: dialer.dialed == 3, what="three attempts")


async def test_files_that_are_missing_for_a_moment_are_waited_for(file: File, dialer: Dialer) -> None:
    file.remove()
    await asyncio.sleep(0.05)
    assert dialer.dialed == 0
    file.replace("another one")
    await aeventually(lambda: dialer.dialed, what="a dial")


def test_plain_text_has_nothing_to_renew() -> None:
    assert certificate_files(Endpoint(("etcd:2379",))) == ()
    assert certificate_files(Endpoint(("etcd:2379",), ca_cert="ca.crt")) == ("ca.crt",)
