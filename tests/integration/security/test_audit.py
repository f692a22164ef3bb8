"""`make audit-python`: an empty response of a database proves nothing, and a known vulnerability is a failure."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
CANARY = "jinja2", "2.4.1"


class Database(ThreadingHTTPServer):
    """A database with OSV's interface, which lists these releases as vulnerable."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.known = {CANARY}
        self.asked: set[str] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Return the URL for queries."""
        return f"http://127.0.0.1:{self.server_port}/v1/query"


class _Answers(BaseHTTPRequestHandler):
    server: Database

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        release = asked["package"]["name"], asked["version"]
        self.server.asked.add(release[0])
        affected = [{"package": asked["package"], "ranges": []}]
        vulnerability = {"id": "PYSEC-2000-1", "details": "bad", "affected": affected}
        found = {"vulns": [vulnerability]} if release in self.server.known else {}
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing."""


@pytest.fixture
def database() -> Iterator[Database]:
    made = Database()
    yield made
    made.shutdown()
    made.server_close()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    line = ["make", "audit-python", f"AUDIT=--vulnerability-service osv --osv-url {url}"]
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    return subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_every_pinned_package_is_queried(database: Database) -> None:
    done = audit(database.url)
    assert done.returncode == 0, done.stderr
    assert {"grpcio", "kopf", "cryptography", "pip-audit", "atheris", "psutil"} <= database.asked
    assert "No known vulnerabilities found" in done.stderr


def test_a_package_with_a_known_vulnerability_is_a_failure(database: Database) -> None:
    database.known.add(("etcd3", "0.12.0"))
    done = audit(database.url)
    assert done.returncode != 0
    assert "PYSEC-2000-1" in done.stdout


def test_an_empty_database_is_a_failure(database: Database) -> None:
    database.known.clear()
    done = audit(database.url)
    assert done.returncode != 0
    assert "nothing was audited" in done.stderr
    assert database.asked == {CANARY[0]}


def test_an_unreachable_database_is_a_failure() -> None:
    done = audit("http://127.0.0.1:1/v1/query")
    assert done.returncode != 0
    assert "nothing was audited: the database of vulnerabilities does not answer" in done.stderr
