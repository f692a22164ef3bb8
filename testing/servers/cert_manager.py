"""cert-manager's own controllers on a real API server.

Its CRDs are from the module that `hack/cert-manager` builds the controllers from, pinned by its checksum. There is no
webhook: only the schemas set defaults and reject objects.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from elasticjob_etcd import die_with_parent
from testing.kube.service_accounts import apply
from testing.kube.stack import SYSTEM
from testing.servers.apiserver import ROOT, ApiServer, await_crd
from testing.waiting import eventually, scaled

MODULE = "github.com/cert-manager/cert-manager@v1.21.2"
SUM = "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="
CRDS = {
    "cert-manager.io": ("certificates", "certificaterequests", "issuers", "clusterissuers"),
    "acme.cert-manager.io": ("orders", "challenges"),
}
_BUILD_S = 1800.0


def source(folder: Path) -> Path:
    """Return the folder of cert-manager's sources; only the pinned version is used."""
    if shutil.which("go") is None:
        raise AssertionError("cert-manager comes from the Go module proxy: install Go 1.24 or newer")
    (folder / "go.mod").write_text("module nothing\n")
    line = ["go", "mod", "download", "-json", MODULE]
    done = subprocess.run(line, cwd=folder, env={**os.environ, "GOWORK": "off"}, capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert found["Sum"] == SUM
    return Path(found["Dir"])


def install_crds(server: ApiServer, sources: Path) -> None:
    """Apply them and wait until they are served. They remain: two modules use them, and deleting a CRD takes time."""
    files = [sources / "deploy" / "crds" / f"{group}_{kind}.yaml" for group, kinds in CRDS.items() for kind in kinds]
    applied = server.kubectl("apply", "--server-side", *(f"--filename={file}" for file in files))
    assert applied.returncode == 0, applied.stderr
    for group, kinds in CRDS.items():
        for kind in kinds:
            await_crd(server, f"{kind}.{group}")


def program() -> str:
    """Return the path of the controllers' program, built if needed."""
    tool = [ROOT / "hack" / "cert-manager"]
    return subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=True, timeout=scaled(_BUILD_S)).stdout.strip()


class CertManager:
    """The controllers, running for the operator's namespace; `close` ends them."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self._server = server
        self.log = folder / "cert-manager.log"
        apply(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
        tied = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid())]
        command = [*tied, program(), str(server.kubeconfig()), SYSTEM]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def apply(self, manifest: dict[str, Any]) -> None:
        """`kubectl apply`."""
        apply(self._server, manifest)

    def issued(self, certificate: str, *, beyond: int = 0) -> int:
        """Wait until a Certificate has been issued more than so many times; return the number."""

        def revision() -> int:
            assert self._process.poll() is None, self.log.read_text(errors="replace")[-3000:]
            status = self._get(certificate).get("status", {})
            found = {condition["type"]: condition["status"] for condition in status.get("conditions", [])}
            return int(status.get("revision", 0)) if found == {"Ready": "True"} else 0

        eventually(lambda: revision() > beyond, within_s=60, what=f"Certificate {certificate} is issued", pause_s=0.2)
        return revision()

    def renew(self, certificate: str) -> None:
        """Renew as `cmctl renew` does; wait until it has been issued again."""
        before = self.issued(certificate)
        found = self._get(certificate)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand"}
        conditions = [*found["status"]["conditions"], {**issuing, "lastTransitionTime": now}]
        patch = json.dumps({"status": {"conditions": conditions}})
        line = (
            "patch",
            "certificate.cert-manager.io",
            certificate,
            "--subresource=status",
            "--type=merge",
            "-p",
            patch,
        )
        done = self._server.kubectl(*line, namespace=SYSTEM)
        assert done.returncode == 0, done.stderr
        self.issued(certificate, beyond=before)

    def _get(self, certificate: str) -> dict[str, Any]:
        line = ("get", "certificate.cert-manager.io", certificate, "-o", "json")
        done = self._server.kubectl(*line, namespace=SYSTEM)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def close(self) -> None:
        """End the controllers."""
        self._process.kill()
        self._process.wait()
