"""What an API server answers, read as bytes: whole, up to a length, or line by line."""

from collections.abc import AsyncIterator

import aiohttp

from elasticjob_operator.cluster.api_errors import FIRST_ERROR, error_from_response


def discard_body(answer: aiohttp.ClientResponse) -> None:
    """Without the farewell of TLS, which would wait for the other side, and outlive `KubeCluster.close`."""
    connection = answer.connection  # None once all was read: then it serves the next request
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def read_answer(answer: aiohttp.ClientResponse, tried: str, most: int | None) -> bytes | None:
    """The answer; None, and the rest is not read, if it has more bytes than `most`."""
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
    """One event each; they may be longer than any buffer of the library's."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
