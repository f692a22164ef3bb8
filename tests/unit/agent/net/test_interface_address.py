"""The address of the interface that the manifest names."""

import pytest

from elasticjob_agent.errors import UsageError
from elasticjob_agent.net.interface_address import interface_address


def test_an_interface_has_its_ipv4_address_first() -> None:
    assert interface_address("lo") == "127.0.0.1"


def test_a_missing_interface_is_refused_with_a_list_of_the_existing_ones() -> None:
    with pytest.raises(UsageError, match=r"agent.interface is net7, but this pod has only .*\blo\b"):
        interface_address("net7")
