"""The checks of `hack/kind/up`: the host's inotify limit, and daemons that crash while nodes and deployments are ready.

A shell function replaces kubectl.
"""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.unit.docs.commands import ROOT

LONG_AGO = "2026-01-02T03:04:05Z"
SETS = ("kindnet|2|2", "kube-proxy|2|2")
PODS = (f"kindnet-a|{LONG_AGO},", f"kube-proxy-a|{LONG_AGO},", f"kube-proxy-b|{LONG_AGO},{LONG_AGO},")


def run(command: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    script = f"set -euo pipefail; . hack/kind/lib.sh; . hack/kind/checks.sh; {command}"
    environ = {"PATH": "/usr/bin:/bin", "ELASTICJOB_CACHE": str(folder), "HOME": str(folder), **variables}
    return subprocess.run(("bash", "-c", script), cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


def faults(folder: Path, *, sets: tuple[str, ...] = SETS, pods: tuple[str, ...] = PODS) -> list[str]:
    """Return what `daemon_faults` prints for these answers of kubectl."""
    (folder / "sets").write_text("\n".join((*sets, "")))
    (folder / "pods").write_text("\n".join((*pods, "")))
    kubectl = """
    kubectl() {
      case $1-${2:-} in
        get-daemonset) cat "$HOME/sets" ;;
        get-pod) cat "$HOME/pods" ;;
        logs-*) echo "too many open files" ;;
      esac
    }
    """
    done = run(f"{kubectl} daemon_faults kubectl; wait_for_daemons kubectl && echo usable", folder, DAEMONS_S="0")
    found = [line for line in done.stdout.splitlines() if line != "usable"]
    assert ("usable" in done.stdout, done.returncode) == ((False, 1) if found else (True, 0)), done
    assert ("fs.inotify.max_user_instances=1024" in done.stderr) == ("too many open files" in done.stdout)
    return found


def test_a_cluster_whose_daemons_run_is_usable(tmp_path: Path) -> None:
    assert faults(tmp_path) == []


def test_a_daemon_that_is_missing_or_not_on_all_nodes_is_named(tmp_path: Path) -> None:
    assert faults(tmp_path, sets=("kindnet|2|2",)) == ["kube-system has no DaemonSet kube-proxy"]
    assert faults(tmp_path, sets=("kindnet|2|1", "kube-proxy|2|2")) == ["kindnet is ready on 1 of 2 nodes"]
    assert faults(tmp_path, sets=("kindnet|0|0", "kube-proxy|2|2")) == ["kindnet is ready on 0 of 0 nodes"]


def test_a_pod_that_crashes_again_and_again_is_named_with_its_last_words(tmp_path: Path) -> None:
    """Between two crashes it runs for a moment, and Kubernetes calls it ready."""
    line = "kube-proxy-b does not run for 5 s: too many open files"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for started in ("", ",", f"{now},", f"{LONG_AGO},,", f"{LONG_AGO},{now},"):
        assert faults(tmp_path, pods=(*PODS[:2], f"kube-proxy-b|{started}")) == [line]


def test_a_low_limit_of_inotify_is_raised_where_this_user_may(tmp_path: Path) -> None:
    limit = tmp_path / "limit"
    limit.write_text("128\n")
    assert (
        "raised fs.inotify.max_user_instances from 128 to 1024" in run(f"raise_inotify_limit {limit}", tmp_path).stderr
    )
    assert limit.read_text() == "1024\n"
    assert run(f"raise_inotify_limit {limit}", tmp_path).stderr == ""
    limit.write_text("8192\n")
    run(f"raise_inotify_limit {limit}", tmp_path)
    assert limit.read_text() == "8192\n"


def test_a_low_limit_that_may_not_be_raised_is_reported_with_its_cure(tmp_path: Path) -> None:
    # No user may write this file of the kernel, not even root. Its number is far below the limit.
    fixed = Path("/proc/sys/kernel/cap_last_cap")
    done = run(f"raise_inotify_limit {fixed}", tmp_path)
    assert done.returncode == 0
    limit = fixed.read_text().strip()
    assert f"fs.inotify.max_user_instances is {limit}, and nodes may need more: as root, run sysctl -w" in done.stderr


def test_an_api_server_that_has_just_begun_is_waited_for(tmp_path: Path) -> None:
    forbidden = 'echo "nodes is forbidden" >&2; return 1'
    kubectl = f'kubectl() {{ [[ -e $HOME/ready ]] || {{ touch "$HOME/ready"; {forbidden}; }}; }};'
    assert run(f"{kubectl} wait_for_api kubectl", tmp_path).returncode == 0
    done = run(f"kubectl() {{ {forbidden}; }}; wait_for_api kubectl", tmp_path, API_S="0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nodes is forbidden" in done.stderr
