"""hostPaths that this machine does not have."""

from pathlib import Path
from typing import Any

import pytest

from elasticjob_api.spec import Keep
from elasticjob_cli.local.host_paths import host_path_faults, replaced_host_paths
from testing.builders import job


def _job(host_path: dict[str, Any], **spec: Any) -> Any:
    mounts = [{"name": "v", "mountPath": "/ckpt"}]
    pod = {"containers": [{"name": "t", "volumeMounts": mounts}], "volumes": [{"name": "v", "hostPath": host_path}]}
    return job(template={"spec": pod}, **spec)


@pytest.mark.parametrize(
    ("kind", "persists", "words"),
    [
        ({"type": "Directory"}, False, "and its type is Directory; create it (mkdir -p "),
        ({}, True, "so the steps of spec.keep.persistTo would go with the folder of this run; create it (mkdir -p "),
        ({"type": "DirectoryOrCreate"}, True, "so the steps of spec.keep.persistTo would go with"),
    ],
)
def test_a_path_that_is_needed_and_missing_is_named_with_its_cure(
    tmp_path: Path, kind: dict[str, str], words: str, *, persists: bool
) -> None:
    path = str(tmp_path / "no")
    keep: dict[str, Any] = {"keep": Keep(size_limit="1Gi", persist_to="/ckpt/a")} if persists else {}
    of = _job({"path": path, **kind}, **keep)
    [fault] = host_path_faults(of, "spec.template.spec")
    assert str(fault).startswith(
        f"spec.template.spec.volumes[0].hostPath.path: {path} does not exist on this machine, "
    )
    assert words in str(fault)
    Path(path).mkdir()
    assert list(host_path_faults(of, "spec.template.spec")) == []


@pytest.mark.parametrize("kind", [{}, {"type": "DirectoryOrCreate"}, {"type": ""}])
def test_any_other_missing_path_is_a_folder_of_the_run_that_is_named(tmp_path: Path, kind: dict[str, str]) -> None:
    of = _job({"path": str(tmp_path / "no"), **kind})
    assert list(host_path_faults(of, "spec")) == []
    assert list(replaced_host_paths(of)) == [("v", str(tmp_path / "no"))]
    (tmp_path / "no").mkdir()
    assert list(replaced_host_paths(of)) == []
