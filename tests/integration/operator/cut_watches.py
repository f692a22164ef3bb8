"""The two watches of an operator on an API server of another machine, whose cable is pulled; in a network of its own.

python -m tests.integration.operator.cut_watches FOLDER
"""

import asyncio
import contextlib
import functools
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from elasticjob_operator.cluster.connection import Connection
from elasticjob_operator.cluster.list_watch import ListWatch
from elasticjob_operator.errors import ClusterUnavailable
from elasticjob_operator.model.cluster_interface import Resource
from testing.network.netns import NAMESPACE_ADDRESS, NetworkNamespace, network_namespace
from testing.waiting import eventually

PORT = 8080
NOTICED_WITHIN_S = 60.0
"""Seconds until absent bookmarks are noticed (150): one arrives each minute, and one may be late."""
_SERVER = """
import socketserver
class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip():
            pass
        head = ("HTTP/1.1 200 OK", "Content-Type: application/json", "Transfer-Encoding: chunked", "", "")
        self.wfile.write("\\r\\n".join(head).encode())
        self.rfile.read(1)
socketserver.ThreadingTCPServer(("0.0.0.0", PORT), Answer).serve_forever()
"""


async def wait_watched(resource: Resource, connected: asyncio.Event) -> None:
    """Run one watch until it ends with ClusterUnavailable."""
    connection = await Connection.open()
    try:
        async for kind, _ in ListWatch(connection).watch(resource, "", ""):
            assert kind == "CONNECTED"
            connected.set()
    except ClusterUnavailable:
        return
    finally:
        await connection.close()


async def pull(line: NetworkNamespace) -> None:
    """Wait until both watches are connected, then cut the connection."""
    tasks = [await begun(functools.partial(wait_watched, each)) for each in (Resource.POD, Resource.JOB)]
    line.disconnect()
    done, late = await asyncio.wait(tasks, timeout=NOTICED_WITHIN_S)
    for task in late:
        task.cancel()
    assert not late, f"{len(late)} of 2 watches are still waiting after {NOTICED_WITHIN_S:g} s"
    for task in done:
        task.result()


async def begun(watch: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    """Wait until the watch has a response that has not ended."""
    connected = asyncio.Event()
    task = asyncio.create_task(watch(connected))
    async with asyncio.timeout(NOTICED_WITHIN_S):
        await connected.wait()
    return task


def configure(folder: Path) -> None:
    """Set $KUBECONFIG to the server in the other network."""
    cluster, user = {"server": f"http://{NAMESPACE_ADDRESS}:{PORT}"}, {"token": "t"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config))


def main(folder: Path) -> None:
    """Run a server in the other network that answers each request without ending its response."""
    configure(folder)
    with network_namespace() as line:
        server = subprocess.Popen([*line.inside, sys.executable, "-c", _SERVER.replace("PORT", str(PORT))])
        try:
            eventually(listens, within_s=NOTICED_WITHIN_S, what="the server there", pause_s=0.1)
            asyncio.run(pull(line))
        finally:
            server.kill()
            server.wait()


def listens() -> bool:
    """Return whether the server accepts a connection."""
    with contextlib.suppress(OSError):
        socket.create_connection((NAMESPACE_ADDRESS, PORT)).close()
        return True
    return False


if __name__ == "__main__":
    main(Path(sys.argv[1]))
