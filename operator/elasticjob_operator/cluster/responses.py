"""Reading of the API server's responses as bytes: whole, up to a length, or line by line."""

from collections.abc import AsyncIterator

import aiohttp

from elasticjob_operator.cluster.api_errors import FIRST_ERROR, error_from_response


def discard_body(answer: aiohttp.ClientResponse) -> None:
    """Close the connection of a response that was not read to its end."""
    # abort() skips the closing handshake of TLS, which would wait for the peer and outlast `Connection.close`.
    connection = answer.connection  # None once the response was read: the connection then serves the next request
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def read_answer(answer: aiohttp.ClientResponse, tried: str, most: int | None) -> bytes | None:
    """Return the response; None, without reading the rest, if it has more bytes than `most`."""
    chunks, size = list[bytes](), 0
    async for chunk in answer.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if most is not None and size > most:
            return None
    data = b"".join(chunks)
    if answer.status >= FIRST_ERROR:
        raise error_from_response(answer.status, tried, data, answer.headers)
    return data


async def iter_lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Return each line of a response, one event each."""
    # The library limits the length of a line that it reads; an event may be longer.
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
