"""The listening socket of one keeper. The agent makes it, and hands it to each keeper that it starts.

So a keeper that replaces another one has the same address, and no other program can take that meanwhile. A peer that
connects while there is no keeper waits for the next one.
"""

import socket

_BACKLOG = 256


def open_listener(host: str) -> socket.socket:
    """Return a socket that listens on a free port of this address; raise OSError if the address is not this host's."""
    family, _, _, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    return socket.create_server(where, family=family, backlog=_BACKLOG)
