"""A real kube-apiserver over a real etcd of its own, on free loopback ports, for tests.

Owns both processes and one folder with their data, logs, certificate and kubeconfig files. `close` ends both, and
the kernel ends them with the thread that started them, so call from a thread that remains. Only the API server can
be stopped, killed and started again: it keeps port, data and tokens, and clients see the same server again.

There is no controller manager, no scheduler and no kubelet. So no garbage is collected, no namespace is ever completely
deleted, and no pod runs unless the test runs it. The API server makes its certificate itself, and its key signs service
account tokens too, hence no openssl. Users are `admin` (may do anything) and `nobody` (may do nothing).
"""

import asyncio
import contextlib
import json
import os
import signal
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
from testing.network.ports import unused_port
from testing.waiting import eventually, scaled

ROOT = Path(__file__).resolve().parents[2]

_TOKENS = {"admin": "admin-token", "nobody": "nobody-token"}
_TOKEN_FILE = 'admin-token,admin,1,"system:masters"\nnobody-token,nobody,2\n'
_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 10.0
_KUBECTL_LIMIT_S = 60.0
_PORT_TRIES = 3
_QUOTA_BYTES = 4 << 30
"""As for an API server: ten thousand pods and their changes are not compacted for minutes."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The paths of the three programs."""

    kube_apiserver: Path
    kubectl: Path
    etcd: Path


class KubeToolsError(Exception):
    """`hack/kube-tools` could not provide the programs; the message ends with its last sentence."""


class ApiServerError(Exception):
    """The API server did not start; the message has the end of its log."""


def kube_programs() -> Programs:
    """Return the programs that `hack/kube-tools` finds, downloads or builds; raise `KubeToolsError` if it cannot.

    Its standard error is passed on line by line: a cold build takes minutes.
    """
    tool = ROOT / "hack" / "kube-tools"
    message = ""
    with subprocess.Popen([tool], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            sys.stderr.write(line)
            message = line.strip()
        paths = dict(line.rstrip().split("=", 1) for line in process.stdout)
    if process.returncode != 0:
        raise KubeToolsError(f"no kube-apiserver for these tests, and they never skip: {message}")
    return Programs(Path(paths["KUBE_APISERVER"]), Path(paths["KUBECTL"]), Path(paths["ETCD"]))


class ApiServer:
    """One API server; a context manager. Tests use it by `kubeconfig()` and `kubectl()`."""

    def __init__(self, programs: Programs, folder: Path, flags: tuple[str, ...] = ()) -> None:
        """`flags` come after the usual ones, and override them."""
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
        """Return the certificate that clients must trust."""
        return self._folder / "certificates" / "apiserver.crt"

    def start(self) -> None:
        """Start the API server, at its old port if it ran before, and wait until it is ready."""
        ports = [self._port] if self._port else [unused_port() for _ in range(_PORT_TRIES)]
        for self._port in ports:
            self._process = process = self._spawn()
            if eventually(self._state, within_s=_START_LIMIT_S, what="kube-apiserver ready") == "ready":
                return
            # Another process may have taken the port between the search and the bind: then try the next one.
            log = (self._folder / "kube-apiserver.log").read_text(errors="replace")
            if "address already in use" not in log:
                break
        raise ApiServerError(f"kube-apiserver ended with {process.returncode} at its start: {log[-2000:]}")

    def stop(self) -> None:
        """Stop the API server by SIGTERM; etcd and the data remain."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the API server; etcd and the data remain."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End both processes at once: their data is not needed any more."""
        self.kill()
        if self._etcd is not None:
            self._etcd.kill()

    def kubeconfig(self, user: str = "admin", *, namespace: str = "default") -> Path:
        """Write a kubeconfig file for `admin` or `nobody`, and return its path."""
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
        """Run kubectl; `stdin` is a manifest for `-f -`. The caller checks the exit code."""
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
            # It would wait for a controller that creates each namespace's service account.
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            *self._flags,
        ]

    def _state(self) -> str:
        """Return `ready`, `ended`, or an empty text."""
        assert self._process is not None
        if self._process.poll() is not None:
            return "ended"
        # Before it has made its certificate and listens, there is no certificate to trust and no server to query.
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
        self._process.send_signal(how)  # does nothing after the process was reaped
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def await_crd(server: ApiServer, name: str) -> None:
    """Wait until the CRD is served; at first it has no conditions at all, and `kubectl wait` fails."""
    wait = ("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    eventually(lambda: server.kubectl(*wait).returncode == 0, within_s=30, what=f"CRD {name} established", pause_s=0.2)
