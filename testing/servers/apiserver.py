"""A real kube-apiserver over a real etcd of its own, on free loopback ports, for tests.

Owns both processes and one folder with their data, logs, certificate and kubeconfig files. `close` ends both, and
the kernel ends them with the thread that started them, so call from a thread that stays. Only the API server can
be stopped, killed and started again: it keeps port, data and tokens, and clients see the same server come back.

There is no controller manager, no scheduler and no kubelet: nothing collects garbage, no namespace is ever
really gone, no pod runs unless the test runs it. The API server makes its certificate itself, and its key signs
service account tokens too, hence no openssl. Users are `admin` (may do anything) and `nobody` (may do nothing).
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from elasticjob_etcd import die_with_parent
from elasticjob_etcd.embedded import EmbeddedEtcd
from testing.waiting import eventually, scaled

ROOT = Path(__file__).resolve().parents[2]

_TOKENS = {"admin": "admin-token", "nobody": "nobody-token"}
_TOKEN_FILE = 'admin-token,admin,1,"system:masters"\nnobody-token,nobody,2\n'
_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 10.0
_KUBECTL_LIMIT_S = 60.0
_PORT_TRIES = 3
_QUOTA_BYTES = 4 << 30
"""As etcd is set up for an API server; ten thousand pods and their changes are not compacted for minutes."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of the three programs."""

    kube_apiserver: Path
    kubectl: Path
    etcd: Path


class KubeToolsError(Exception):
    """`hack/kube-tools` could not provide the programs; the message ends with its own last sentence."""


class ApiServerError(Exception):
    """The API server did not start; the message has the end of its log."""


def kube_programs() -> Programs:
    """The programs that `hack/kube-tools` finds, downloads or builds; raises `KubeToolsError` if it cannot.

    What it says on standard error is passed on as it comes: a cold build takes minutes.
    """
    tool = ROOT / "hack" / "kube-tools"
    said = ""
    with subprocess.Popen([tool], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            said = line.strip()
        paths = dict(line.rstrip().split("=", 1) for line in process.stdout)
    if process.returncode != 0:
        raise KubeToolsError(f"no kube-apiserver for these tests, and they never skip: {said}")
    return Programs(Path(paths["KUBE_APISERVER"]), Path(paths["KUBECTL"]), Path(paths["ETCD"]))


class ApiServer:
    """One API server; a context manager. `kubeconfig()` and `kubectl()` are how tests reach it."""

    def __init__(self, programs: Programs, folder: Path, flags: tuple[str, ...] = ()) -> None:
        """`flags` go behind the usual ones, and win."""
        self._programs = programs
        self._flags = flags
        self._folder = folder
        self._etcd: EmbeddedEtcd | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        (self._folder / "tokens.csv").write_text(_TOKEN_FILE)
        try:
            start = EmbeddedEtcd.start(
                self._folder / "etcd", client_port=0, binary=self._programs.etcd, quota_bytes=_QUOTA_BYTES
            )
            self._etcd = asyncio.run(start)
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def certificate(self) -> Path:
        """What a client must trust."""
        return self._folder / "certificates" / "apiserver.crt"

    def start(self) -> None:
        """Start the API server, at its old port if it ran before, and wait until it is ready."""
        ports = [self._port] if self._port else [_free_port() for _ in range(_PORT_TRIES)]
        for self._port in ports:
            self._process = process = self._spawn()
            if eventually(self._state, within_s=_START_LIMIT_S, what="kube-apiserver ready") == "ready":
                return
            # Somebody may have taken the port between our look and its bind: then the next one is tried.
            log = (self._folder / "kube-apiserver.log").read_text(errors="replace")
            if "address already in use" not in log:
                break
        raise ApiServerError(f"kube-apiserver ended with {process.returncode} at its start: {log[-2000:]}")

    def stop(self) -> None:
        """Stop the API server in an orderly way; etcd and the data stay."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL the API server; etcd and the data stay."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End both processes, at once: nothing of their data is wanted any more."""
        self.kill()
        if self._etcd is not None:
            self._etcd.kill()

    def kubeconfig(self, user: str = "admin", *, namespace: str = "default") -> Path:
        """A kubeconfig file for `admin` or `nobody`."""
        path = self._folder / f"{user}-{namespace}.kubeconfig"
        server = {"server": self.url, "certificate-authority": str(self.certificate)}
        context = {"cluster": "test", "user": user, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": user, "user": {"token": _TOKENS[user]}}],
            "contexts": [{"name": "test", "context": context}],
        }
        path.write_text(json.dumps(config))  # JSON is YAML
        return path

    def kubectl(
        self, *arguments: str, user: str = "admin", namespace: str = "default", stdin: Mapping[str, Any] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; `stdin` is a manifest for `-f -`. The exit code is the caller's to look at."""
        config = self.kubeconfig(user, namespace=namespace)
        cache = self._folder / "kubectl-cache"
        return subprocess.run(
            [self._programs.kubectl, f"--kubeconfig={config}", f"--cache-dir={cache}", *arguments],
            input="" if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            check=False,
            timeout=scaled(_KUBECTL_LIMIT_S),
        )

    def _spawn(self) -> subprocess.Popen[bytes]:
        tied = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid()), *self._command()]
        with (self._folder / "kube-apiserver.log").open("wb") as log:
            return subprocess.Popen(tied, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _command(self) -> list[str]:
        assert self._etcd is not None
        certificates = self._folder / "certificates"
        return [
            str(self._programs.kube_apiserver),
            f"--etcd-servers=http://{self._etcd.endpoint.targets[0]}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={certificates}",
            f"--service-account-key-file={certificates / 'apiserver.key'}",
            f"--service-account-signing-key-file={certificates / 'apiserver.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # It would wait for a controller that makes each namespace's service account.
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            *self._flags,
        ]

    def _state(self) -> str:
        """`ready`, `ended`, or nothing yet."""
        assert self._process is not None
        if self._process.poll() is not None:
            return "ended"
        # Until it has made its certificate and listens there is nothing to trust and nobody to ask.
        with contextlib.suppress(OSError):
            request = urllib.request.Request(
                f"{self.url}/readyz", headers={"Authorization": f"Bearer {_TOKENS['admin']}"}
            )
            trusted = ssl.create_default_context(cafile=self.certificate)
            with urllib.request.urlopen(request, timeout=5, context=trusted):
                return "ready"
        return ""

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)  # does nothing once it was waited for
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    """A loopback port that nobody has right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
