"""The etcd of the chart's pod as processes: the commands of its containers, with paths and ports of this machine."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from testing.servers.secured_etcd import ADDRESS, SecuredEtcd
from testing.waiting import scaled

_ROOT = Path(__file__).resolve().parents[2]
_HELM_S = 900.0


def etcd_pod(*values: str) -> dict[str, Any]:
    """Return the pod that the chart makes of these values, given as for `--set`."""
    tool = subprocess.run([_ROOT / "hack" / "kube-tools", "helm"], stdout=subprocess.PIPE, check=True, text=True)
    helm = tool.stdout.strip().removeprefix("HELM=")
    sets = [word for value in ("etcd.members=1", "etcd.tls.enabled=true", *values) for word in ("--set", value)]
    line = [helm, "template", "x", str(_ROOT / "charts" / "elasticjob"), *sets]
    shown = "--show-only=templates/etcd/statefulset.yaml"
    done = subprocess.run([*line, shown], capture_output=True, check=True, text=True, timeout=scaled(_HELM_S))
    [etcd] = [found for found in yaml.safe_load_all(done.stdout) if found and found["kind"] == "StatefulSet"]
    pod: dict[str, Any] = etcd["spec"]["template"]["spec"]
    return pod


@dataclass
class ChartEtcd(SecuredEtcd):
    """One member with exactly the chart's own flags."""

    pod: dict[str, Any] = field(default_factory=etcd_pod)

    def _data_flags(self) -> list[str]:
        [prepared] = [one for one in self.pod["initContainers"] if one["name"] == "enable-auth"]
        return self._here(prepared["command"])

    def _client_flags(self) -> list[str]:
        [server] = self.pod["containers"]
        return [flag for flag in self._here(server["command"]) if flag not in self._data_flags()]

    def _here(self, command: list[str]) -> list[str]:
        """Return the flags of etcd in a container's command, for this machine."""
        places = {
            "/data/etcd": f"{self.folder}/data",
            "/tls/": f"{self.folder}/server/",
            "0.0.0.0:2379": f"{ADDRESS}:{self.port}",
            "listen-peer-urls=http://127.0.0.1:2380": f"listen-peer-urls=http://{ADDRESS}:0",
            "listen-metrics-urls=http://0.0.0.0:2381": f"listen-metrics-urls=http://{ADDRESS}:0",
            "$(POD_NAME)": "etcd-0",
            "$(POD_UID)": self.folder.name,
        }
        flags = command[command.index("etcd") + 1 :]
        for name, place in places.items():
            flags = [flag.replace(name, place) for flag in flags]
        return flags
