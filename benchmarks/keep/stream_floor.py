"""The floor of a copy: one stream of bytes from a file in memory to another one, through the loopback interface.

    python -m benchmarks.keep.stream_floor BYTES plain|tls

Two processes, as keepers are. It prints `{"seconds": …}`.
"""

import json
import mmap
import os
import socket
import ssl
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.keep.keepers import MEMORY, MIB, write_bytes
from elasticjob_operator.tls.ca import CertificateAuthority

_HOST = "localhost"
_READ_BYTES = 1 << 18
"""Such a buffer stays in a cache of the processor: it takes less time than `sendfile` from a file in memory."""


def main(size: str, form: str) -> None:
    """Measure once, and print."""
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="keep-floor-") as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        write_bytes(source, int(size))
        server, client = _contexts(Path(folder)) if form == "tls" else (None, None)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            if os.fork() == 0:
                try:
                    _send(source, listener.getsockname(), client)
                finally:
                    os._exit(0)  # the receiver counts the bytes
            took_s = _receive(target, listener, server)
        os.wait()
        assert target.stat().st_size == int(size)
    print(json.dumps({"seconds": took_s}))


def _receive(target: Path, listener: socket.socket, context: ssl.SSLContext | None) -> float:
    accepted, _ = listener.accept()
    stream = context.wrap_socket(accepted, server_side=True) if context else accepted
    buffer = memoryview(bytearray(MIB))
    with stream, target.open("wb", buffering=0) as file:
        stream.recv_into(buffer, 1)  # the sender begins
        began_s = time.monotonic()
        file.write(buffer[:1])
        while count := stream.recv_into(buffer):
            file.write(buffer[:count])
        return time.monotonic() - began_s


def _send(source: Path, place: tuple[str, int], context: ssl.SSLContext | None) -> None:
    plain = socket.create_connection(place)
    with source.open("rb", buffering=0) as file:
        if context is None:
            with plain:
                buffer = memoryview(bytearray(_READ_BYTES))
                while count := file.readinto(buffer):
                    plain.sendall(buffer[:count])
            return
        with context.wrap_socket(plain, server_hostname=_HOST) as stream:
            data = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            for begin in range(0, len(data), MIB):
                stream.sendall(data[begin : begin + MIB])
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(MIB):  # session tickets: what is not read would reset the connection
                pass


def _contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = CertificateAuthority.create(now_s=time.time())
    issued = authority.issue_server([_HOST], now_s=time.time(), life_s=600)
    for name, data in {"crt": issued.certificate, "key": issued.key, "ca": authority.certificate}.items():
        (folder / name).write_bytes(data)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "crt", folder / "key")
    return server, ssl.create_default_context(cafile=str(folder / "ca"))


if __name__ == "__main__":
    main(*sys.argv[1:])
