"""A registry of images on this machine, the one that docker offers, for commands that push images.

It is built from the Go module proxy (pinned, a few minutes the first time). It stores everything in one folder, and
ends with its context. docker accepts a registry on loopback without TLS.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elasticjob_agent.net.ports import free_port
from testing.waiting import eventually, scaled

_PROGRAM = "github.com/distribution/distribution/v3/cmd/registry@v3.0.0"
_BUILD_S = 1200.0
_CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}", secret: none}}
"""


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Yield its HOST:PORT while it runs."""
    subprocess.run(
        ("go", "install", _PROGRAM), env={**os.environ, "GOBIN": str(folder)}, check=True, timeout=scaled(_BUILD_S)
    )
    port = free_port()
    config = folder / "config.yml"
    config.write_text(_CONFIG.format(folder=folder / "images", port=port))
    with subprocess.Popen((folder / "registry", "serve", config)) as process:
        try:
            eventually(lambda: _asked(f"localhost:{port}", "") is not None, what="the registry", pause_s=0.1)
            yield f"localhost:{port}"
        finally:
            process.terminate()


def tags(host: str, image: str) -> list[str]:
    """Return the tags of an image in the registry."""
    found = _asked(host, f"{image}/tags/list") or {}
    return list(found.get("tags", []))


def _asked(host: str, path: str) -> "dict[str, list[str]] | None":
    try:
        with urllib.request.urlopen(f"http://{host}/v2/{path}", timeout=10) as answer:
            body: dict[str, list[str]] = json.load(answer)
            return body
    except OSError:
        return None
