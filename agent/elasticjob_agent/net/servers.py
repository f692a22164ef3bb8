"""The end of an asyncio server: accepted connections reach their protocol first, so that their owner can close them.

asyncio accepts a connection in one turn of its loop and makes the transport in the next. If the server is closed in
between, the transport is left half-initialised: `Server._attach` fails, and only debug mode logs it. No callback of the
protocol runs, the socket stays open until it is garbage-collected, and the client hangs.
"""

import asyncio

_ACCEPTING = 3
"""Turns of the loop: create the transport, call the protocol, begin the task of a callback that is a coroutine."""


async def close_server(server: asyncio.Server) -> None:
    """Stop accepting, hand accepted connections to their protocol, and close the listener; idempotent.

    Open connections stay open. A connection that the kernel has, but asyncio has not accepted, is reset.
    """
    loop = server.get_loop()
    for listener in server.sockets:
        loop.remove_reader(listener.fileno())
    try:
        for _ in range(_ACCEPTING):
            await asyncio.sleep(0)
    finally:
        server.close()
