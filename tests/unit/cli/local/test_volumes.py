"""Volumes as folders, and mount paths that are rewritten to them."""

from pathlib import Path
from typing import Any

import pytest

from elasticjob_cli.local.volumes import PathMap, VolumePaths, path_map, prepare, volume_faults, volume_folders

_LOG = Path("/run/pods/p/trainer.termination-log")


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("/ckpt", "/v/ckpt"),
        ("/ckpt/last.npz", "/v/ckpt/last.npz"),
        ("/ckpt/inner/x", "/v/inner/x"),
        ("--out=/ckpt", "--out=/v/ckpt"),
        ("ls /ckpt && cp '/ckpt/a' \"/ckpt/b\";", "ls /v/ckpt && cp '/v/ckpt/a' \"/v/ckpt/b\";"),
        ("/bin:/ckpt/bin", "/bin:/v/ckpt/bin"),
        ("cat</ckpt/a>/ckpt/b", "cat</v/ckpt/a>/v/ckpt/b"),
        ("/ckpts", "/ckpts"),
        ("/ckpt-old", "/ckpt-old"),
        ("/ckpt.bak", "/ckpt.bak"),
        ("/data/ckpt", "/data/ckpt"),
        ("./ckpt", "./ckpt"),
        ("s3://bucket/ckpt", "s3://bucket/ckpt"),
        ("${HOME}/ckpt", "${HOME}/ckpt"),
        ("$HOME/ckpt", "$HOME/ckpt"),
        ("$(pwd)/ckpt", "$(pwd)/ckpt"),
        ("ckpt", "ckpt"),
    ],
)
def test_mount_paths_are_rewritten_and_other_words_are_not(text: str, rewritten: str) -> None:
    assert PathMap({"/ckpt": Path("/v/ckpt"), "/ckpt/inner": Path("/v/inner")}).rewrite(text) == rewritten


def test_a_rewritten_path_is_not_rewritten_again() -> None:
    assert PathMap({"/a": Path("/b/x"), "/b": Path("/c")}).rewrite("/a /b") == "/b/x /c"


def _pod(volume: dict[str, Any], **mount: Any) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/data", **mount}]
    return {"volumes": [{"name": "v", **volume}], "containers": [{"name": "trainer", "volumeMounts": mounts}]}


def _mapped(pod: dict[str, Any], tmp_path: Path) -> str:
    folders = volume_folders(pod, VolumePaths(pod=tmp_path / "p", host=tmp_path / "host"))
    return path_map(pod["containers"][0], folders, _LOG).rewrite("/data/x").replace(str(tmp_path), "TMP")


@pytest.mark.parametrize("medium", [{}, {"medium": "Memory", "sizeLimit": "1Gi"}])
def test_an_empty_dir_is_a_folder_of_the_pod(tmp_path: Path, medium: dict[str, str]) -> None:
    assert _mapped(_pod({"emptyDir": medium}), tmp_path) == "TMP/p/volumes/v/x"


def test_only_the_volume_of_kept_steps_is_in_memory(tmp_path: Path) -> None:
    empty = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    pod = {"volumes": [{"name": "elasticjob-keep", **empty}, {"name": "v", **empty}]}
    roots = VolumePaths(pod=tmp_path / "p", host=tmp_path / "host", memory=Path("/dev/shm/run/p"))
    assert volume_folders(pod, roots) == {
        "elasticjob-keep": Path("/dev/shm/run/p"),
        "v": tmp_path / "p" / "volumes" / "v",
    }


def test_a_sub_path_is_a_folder_below(tmp_path: Path) -> None:
    assert _mapped(_pod({"emptyDir": {}}, subPath="runs/1"), tmp_path) == "TMP/p/volumes/v/runs/1/x"


def test_a_host_path_that_exists_is_used_in_place(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert _mapped(_pod({"hostPath": {"path": str(tmp_path / "data")}}), tmp_path) == "TMP/data/x"


def test_a_host_path_that_is_missing_is_a_folder_of_the_run(tmp_path: Path) -> None:
    assert _mapped(_pod({"hostPath": {"path": "/no/such/folder"}}), tmp_path) == "TMP/host/no/such/folder/x"


def test_a_slash_at_the_end_of_a_mount_path_is_ignored(tmp_path: Path) -> None:
    assert _mapped(_pod({"emptyDir": {}}, mountPath="/data/"), tmp_path) == "TMP/p/volumes/v/x"


def test_shared_memory_is_that_of_the_machine(tmp_path: Path) -> None:
    pod = _pod({"emptyDir": {"medium": "Memory"}}, mountPath="/dev/shm")
    folders = volume_folders(pod, VolumePaths(pod=tmp_path, host=tmp_path))
    assert path_map(pod["containers"][0], folders, _LOG).rewrite("/dev/shm/x") == "/dev/shm/x"


@pytest.mark.parametrize(
    ("container", "path"), [({}, "/dev/termination-log"), ({"terminationMessagePath": "/last"}, "/last")]
)
def test_the_termination_log_is_a_file_of_the_pod(container: dict[str, str], path: str) -> None:
    assert path_map(container, {}, _LOG).rewrite(f"echo bad > {path}") == f"echo bad > {_LOG}"


def test_folders_are_made_once(tmp_path: Path) -> None:
    prepare([tmp_path / "a/b", tmp_path / "a/b"])
    assert (tmp_path / "a/b").is_dir()


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        pytest.param(
            _pod({"persistentVolumeClaim": {"claimName": "c"}}),
            "spec.volumes[0].persistentVolumeClaim: volume 'v' is a PersistentVolumeClaim, which needs a cluster",
            id="a claim",
        ),
        pytest.param(_pod({"secret": {"secretName": "s"}}), "volume 'v' is a Secret", id="a secret"),
        pytest.param(_pod({"configMap": {"name": "c"}}), "volume 'v' is a ConfigMap", id="a config map"),
        pytest.param(_pod({"glusterfs": {}}), "volume 'v' is glusterfs", id="some other kind"),
        pytest.param(
            _pod({"hostPath": {"path": "data"}}), "volume 'v' must have an absolute path", id="a relative path"
        ),
        pytest.param(
            _pod({"emptyDir": {}}, name="w"), "is 'w'; it must be the name of a volume", id="a mount of nothing"
        ),
        pytest.param(_pod({"emptyDir": {}}, mountPath="/"), "must be an absolute path below /", id="a mount at root"),
        pytest.param(_pod({"emptyDir": {}}, subPath="a/../.."), "must not contain '..'", id="a way out"),
    ],
)
def test_a_volume_that_cannot_be_a_folder_is_refused_by_one_sentence(pod: dict[str, Any], words: str) -> None:
    [fault] = volume_faults(pod, "spec")
    assert words in str(fault)
