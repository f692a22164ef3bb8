"""The stderr of a process whose TLS connection etcd refuses; each test has a new process, because gRPC begins once."""

import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticjob_operator.tls.ca import CertificateAuthority

HOST = "127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The file of an authority's certificate, beside a server's certificate and key."""
    made = CertificateAuthority.create(now_s=time.time())
    server = made.issue_server([HOST], now_s=time.time(), life_s=1e6)
    (tmp_path / "cert").write_bytes(server.certificate)
    (tmp_path / "key").write_bytes(server.key)
    path = tmp_path / "ca"
    path.write_bytes(made.certificate)
    return path


@pytest.fixture
def peer_port(authority: Path) -> Iterator[int]:
    """A port that wants a certificate of each client, as the peer port of a running etcd does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.with_name("cert"), authority.with_name("key"))
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=_refuse_all, args=(listener, context), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _refuse_all(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # the test has ended
        with client:
            try:
                context.wrap_socket(client, server_side=True).close()
            except OSError:
                continue


def stderr_of_query(port: int, authority: Path, **variables: str) -> str:
    """Return what a process writes to stderr that asks this port whether its member is empty."""
    program = (
        "import os\n"
        "from elasticjob_etcd.member_bootstrap import is_empty\n"
        f"assert not is_empty('https://{HOST}:{port}', {str(authority)!r})\n"
        f"assert os.environ.get('GRPC_VERBOSITY', '') == {variables.get('GRPC_VERBOSITY', '')!r}\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")} | variables
    command = (sys.executable, "-c", program)
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stderr


def test_a_member_that_wants_a_certificate_is_no_corruption_in_the_log(peer_port: int, authority: Path) -> None:
    assert stderr_of_query(peer_port, authority) == ""


def test_a_user_gets_the_log_of_grpc_by_its_variable(peer_port: int, authority: Path) -> None:
    assert "Corruption detected" in stderr_of_query(peer_port, authority, GRPC_VERBOSITY="ERROR")
