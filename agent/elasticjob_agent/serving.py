"""The end of an asyncio server: whoever it has accepted comes in first, so that its owner can close that as well.

asyncio accepts a connection in one turn of its loop and makes the transport in the next. A server that is closed in
between has the transport made half (`Server._attach` fails, and only debug mode says so): its owner is never told of
the connection, and nobody closes it before the collector of garbage, while whoever has dialed waits for an answer.
"""

import asyncio

_ARRIVING = 3
"""Turns: the transport is made, the protocol is told, the task of a callback that is a coroutine begins."""


async def stop_serving(server: asyncio.Server) -> None:
    """Accept no more, hand over what was accepted, and close the listener; idempotent.

    Connections stay as they are. One that the kernel has and asyncio has not accepted is reset.
    """
    loop = server.get_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    try:
        for _ in range(_ARRIVING):
            await asyncio.sleep(0)
    finally:
        server.close()
