"""The listeners at a port of this machine, and those that a node trusts."""

import socket

from elasticjob_agent.shared_etcd.listeners import is_trusted, listeners
from testing.processes import other_user

ROWS = (
    "   0: 0100007F:72D8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0",
    "   1: 0100007F:72D8 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1001        0 1 1 0 100 0 0 10 0",
    "   2: 0100007F:72D9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 1 1 0 100 0 0 10 0",
    "   3: 00000000000000000000000001000000:72D8 00000000000000000000000000000000:0000 0A 0:0 00:0 0     0        0 1",
)


def test_listeners_at_a_port_are_read_from_both_tables() -> None:
    assert list(listeners(0x72D8, ROWS)) == [1000, 0]


def test_only_an_existing_listener_of_this_user_is_trusted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mine:
        port = mine.getsockname()[1]
        assert is_trusted(port)
    assert not is_trusted(port)


@other_user.needs_root
def test_another_users_listener_is_not_trusted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with other_user.listening(port):
        assert not is_trusted(port)
