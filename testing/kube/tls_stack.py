"""A stack whose etcd requires certificates: the release's roles and Secrets, and pods that mount theirs.

There is no kubelet: `Pods` starts the agent of a pod as a process with the pod's own environment. It updates the files
of the pod's Secret as a kubelet does.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from elasticjob_api import constants
from elasticjob_etcd import die_with_parent
from testing.kube.service_accounts import apply
from testing.kube.stack import SYSTEM, KubeStack, service_account_token, write_kubeconfig
from testing.servers.apiserver import ROOT, ApiServer
from testing.servers.secured_etcd import SecuredEtcd
from testing.waiting import eventually, scaled

CA_SECRET, SERVER_SECRET = "elasticjob-etcd-ca", "elasticjob-etcd-server"
_HELM_S = 900.0


class Release:
    """The objects of `helm install` with `etcd.tls`, under names of its own, and its operator."""

    def __init__(self, rig: KubeStack, etcd: SecuredEtcd, *values: str, authority: str = "", server: str = "") -> None:
        """`values` have the form of helm's `--set`; without any, a release for the stack's namespace.

        `authority` and `server` are Secrets that a user provides.
        """
        self.stack = rig
        brought = {"etcd.tls.caSecret": authority, "etcd.tls.serverSecret": server}
        here = values or (f"operator.watchNamespaces={{{rig.namespace.name}}}",)
        self._values = (*here, *(f"{value}={name}" for value, name in brought.items() if name))
        self.etcd = etcd
        self.name = rig.namespace.name
        self.ca, self.server = authority or f"{self.name}-{CA_SECRET}", server or f"{self.name}-{SERVER_SECRET}"
        self._provided_ca = {name for name in (authority, server) if name}
        self.manifests = self._rendered()
        self.apply()
        token = service_account_token(rig.namespace.server, f"{self.name}-elasticjob-operator")
        self.kubeconfig = write_kubeconfig(rig.folder / "release.kubeconfig", rig.namespace.server, token)

    def apply(self) -> None:
        """`kubectl apply`."""
        for manifest in self.manifests:
            apply(self.stack.namespace.server, manifest)

    def _rendered(self) -> list[dict[str, Any]]:
        tool = subprocess.run([ROOT / "hack" / "kube-tools", "helm"], stdout=subprocess.PIPE, check=True, text=True)
        helm = tool.stdout.strip().removeprefix("HELM=")
        parts = ["operator/rbac.yaml", "operator/installation.yaml"]
        if not self._provided_ca >= {self.ca, self.server}:
            parts += ["etcd/secrets.yaml"]
        shown = [f"--show-only=templates/{part}" for part in parts]
        line = [helm, "template", self.name, str(ROOT / "charts" / "elasticjob"), "--namespace", SYSTEM]
        sets = [word for value in ("etcd.tls.enabled=true", *self._values) for word in ("--set", value)]
        done = subprocess.run(
            [*line, *sets, *shown], capture_output=True, check=True, text=True, timeout=scaled(_HELM_S)
        )
        return [found for found in yaml.safe_load_all(done.stdout) if found]

    @property
    def options(self) -> tuple[str, ...]:
        """Return the operator's options for certificates."""
        server = ("--etcd-server-secret", self.server, "--etcd-server-name", "127.0.0.1")
        return (
            *("--etcd-ca-secret", self.ca, "--secrets-namespace", SYSTEM),
            *(() if self.server in self._provided_ca else server),
            *("--certificates-folder", str(self.stack.folder / "certificates")),
            *("--installation-config-map", f"{SYSTEM}/{self.name}-elasticjob-installation"),
        )

    def start_operator(self, *options: str) -> None:
        """Start the operator with the release's own permissions and no more."""
        etcd = f"127.0.0.1:{self.etcd.port}"
        self.stack.start_operator(*self.options, *options, etcd=etcd, kubeconfig=self.kubeconfig)

    def provide_ca(self, more: Mapping[str, bytes] = {}) -> None:
        """Provide an existing authority, as a user does: that of the running etcd, and `more` files."""
        own = self.etcd.ca
        data = {"tls.crt": own.certificate, "tls.key": own.key, **more}
        body = {"data": {name: base64.b64encode(text).decode() for name, text in data.items()}}
        patch = ("patch", "secret", self.ca, "--type=merge", "-p", json.dumps(body))
        done = self.stack.namespace.server.kubectl(*patch, namespace=SYSTEM)
        assert done.returncode == 0, done.stderr

    def mount_server(self) -> None:
        """Write the files that etcd reads, from the current Secret."""
        replace_files(self.etcd.folder / "server", self.secret(self.server))

    def secret(self, name: str, namespace: str = SYSTEM) -> dict[str, bytes]:
        """Return the contents of a Secret."""
        return read_secret(self.stack.namespace.server, name, namespace)


def read_secret(server: ApiServer, name: str, namespace: str = SYSTEM) -> dict[str, bytes]:
    """Return the contents of a Secret."""
    found = server.kubectl("get", "secret", name, "-o", "json", namespace=namespace)
    assert found.returncode == 0, found.stderr
    return {name: base64.b64decode(text) for name, text in (json.loads(found.stdout).get("data") or {}).items()}


def replace_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace files as a kubelet does, each atomically."""
    for file, text in sorted(contents.items()):
        (folder / "aside").write_bytes(text)
        (folder / "aside").replace(folder / file)


class Pods:
    """The agents of a job's pods."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._rig = release.stack
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, count: int) -> None:
        """Wait for so many pods, and start the agent of each that has none."""
        self._rig.until(f"{count} pods", lambda: len(self._rig.pod_names()) == count)
        for pod in self._rig.pods():
            if pod["metadata"]["name"] not in self._agents:
                self._start(pod)

    def _start(self, pod: dict[str, Any]) -> None:
        name, [container] = pod["metadata"]["name"], pod["spec"]["containers"]
        self.mount(pod)
        env = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        env[constants.ENV_ETCD_TLS] = str(self._folder(pod))
        fields = {"POD_NAME": name, "POD_UID": pod["metadata"]["uid"], "POD_IP": "127.0.0.1", "NODE_NAME": name}
        env |= {f"ELASTICJOB_{field}": value for field, value in fields.items()}
        env |= {constants.ENV_LOG_DIR: str(self._rig.folder / name), constants.ENV_TERMINATION_LOG: os.devnull}
        tied = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid()), sys.executable]
        command = [*tied, "-m", "elasticjob_agent.cli.main", *container["command"][1:]]
        with self.log(name).open("wb") as log:
            self._agents[name] = subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log)
        self._rig.patch_pod_status(name, {"phase": "Running", "podIP": "127.0.0.1"})

    def log(self, name: str) -> Path:
        """Return the log of a pod's agent."""
        return self._rig.folder / f"{name}.log"

    def log_contains(self, words: str) -> None:
        """Wait until every agent has logged this text."""
        for name in self._agents:
            log = self.log(name)
            eventually(lambda log=log: words in log.read_text(), within_s=40, what=words)  # type: ignore[misc]

    def mount(self, pod: dict[str, Any]) -> None:
        """Write the current files of the pod's Secret."""
        [volume] = [volume for volume in pod["spec"]["volumes"] if "secret" in volume]
        folder = self._folder(pod)
        folder.mkdir(exist_ok=True)
        name, namespace = volume["secret"]["secretName"], self._rig.namespace.name
        replace_files(folder, self._release.secret(name, namespace))

    def _folder(self, pod: dict[str, Any]) -> Path:
        return self._rig.folder / f"{pod['metadata']['name']}.tls"

    def remount(self) -> None:
        """Write the current files of all pods, as the kubelet does after a while."""
        for pod in self._rig.pods():
            self.mount(pod)

    def end(self) -> list[int]:
        """Wait until all agents have ended; return their exit codes."""
        return [agent.wait(timeout=scaled(30)) for agent in self._agents.values()]

    def close(self) -> None:
        """End all processes that still run."""
        for agent in self._agents.values():
            agent.kill()
            agent.wait()
