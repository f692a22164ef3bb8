"""The end of an asyncio server: accepted connections are handed over first, so that their owner can close them.

asyncio accepts a connection in one turn of its loop and makes the transport in the next. If the server is closed in
between, the transport is left half-initialised: `Server._attach` fails, and only debug mode logs it. No callback of the
protocol runs, the socket stays open until it is garbage-collected, and the client hangs.
"""

import asyncio

_ACCEPTING = 3
"""Turns: the transport is made, the protocol is called, the task of a callback that is a coroutine begins."""


async def close_server(server: asyncio.Server) -> None:
    """Accept no more, hand over what was accepted, and close the listener; idempotent.

    Connections stay as they are. One that the kernel has and asyncio has not accepted is reset.
    """
    loop = server.get_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    try:
        for _ in range(_ACCEPTING):
            await asyncio.sleep(0)
    finally:
        server.close()
