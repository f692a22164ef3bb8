"""The CRD of the repository, and when an API server serves one. The fixtures are those of all integration tests."""

from pathlib import Path

from tests.faults.apiserver import ApiServer
from tests.faults.waiting import eventually

CRD = Path(__file__).resolve().parents[3] / "crds" / "elasticjob.yaml"


def await_crd(server: ApiServer, name: str) -> None:
    """Wait until it is served; in its first moment it has no conditions at all, and `kubectl wait` fails on that."""
    wait = ("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    eventually(lambda: server.kubectl(*wait).returncode == 0, within_s=30, what=f"CRD {name} established", pause_s=0.2)
