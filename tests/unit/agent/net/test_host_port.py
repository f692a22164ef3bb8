"""Endpoints as users write them."""

import pytest

from elasticjob_agent.errors import UsageError
from elasticjob_agent.net.host_port import parse_endpoint


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("etcd:1234", ("etcd:1234",)),
        ("etcd", ("etcd:2379",)),
        ("10.0.0.1", ("10.0.0.1:2379",)),
        ("[fd00::1]:1234", ("[fd00::1]:1234",)),
        ("[fd00::1]", ("[fd00::1]:2379",)),
        ("a:1, b:2,", ("a:1", "b:2")),
    ],
)
def test_endpoints_get_a_default_port(text: str, targets: tuple[str, ...]) -> None:
    assert parse_endpoint(text) == targets


@pytest.mark.parametrize("text", ["", " , "])
def test_a_missing_endpoint_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--rdzv-endpoint is missing"):
        parse_endpoint(text)
