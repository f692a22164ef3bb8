"""Addresses and certificate files that make a channel, and the errors for others."""

from pathlib import Path

import pytest

from elasticjob_etcd.channel import open_channel, rotated, target_of
from elasticjob_etcd.errors import BadEndpoint
from elasticjob_etcd.interface import Endpoint


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (("etcd.default.svc:2379",), "dns:///etcd.default.svc:2379"),
        (("127.0.0.1:2379",), "ipv4:127.0.0.1:2379"),
        (("10.0.0.1:1", "10.0.0.2:2"), "ipv4:10.0.0.1:1,10.0.0.2:2"),
        (("[::1]:2379", "[fd00::1]:2379"), "ipv6:[::1]:2379,[fd00::1]:2379"),
        (("unix:/run/etcd",), "unix:/run/etcd"),
    ],
)
def test_addresses_become_one_target(targets: tuple[str, ...], expected: str) -> None:
    assert target_of(targets) == expected


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        pytest.param((), "no etcd address", id="none"),
        pytest.param(("etcd",), "'etcd' is not host:port", id="no port"),
        pytest.param((":2379",), "is not host:port", id="no host"),
        pytest.param(("etcd:http",), "is not host:port", id="port by name"),
        pytest.param(("http://etcd:2379",), "is not host:port", id="URL"),
        pytest.param(("a:1", "b:2"), "one host name that resolves to all", id="two names"),
        pytest.param(("10.0.0.1:1", "[::1]:1"), "IP addresses of one family", id="two families"),
    ],
)
def test_other_addresses_are_refused_in_words(targets: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadEndpoint, match=message):
        target_of(targets)


async def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadEndpoint, match="needs both cert and key"):
        open_channel(Endpoint(("h:1",), cert=str(tmp_path)))


async def test_a_certificate_file_that_is_missing_is_named() -> None:
    with pytest.raises(BadEndpoint, match=r"ca_cert file /nowhere/ca\.crt cannot be read: No such file"):
        open_channel(Endpoint(("h:1",), ca_cert="/nowhere/ca.crt"))


def test_a_turn_begins_with_another_address_and_has_them_all() -> None:
    targets = ("10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3")
    assert [rotated(targets, turn)[0] for turn in range(5)] == [*targets, *targets[:2]]
    assert rotated(targets, 1) == ("10.0.0.2:2", "10.0.0.3:3", "10.0.0.1:1")
