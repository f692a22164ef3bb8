"""The krew manifest; `hack/krew/build.py` builds the archive for a release."""

import re
from pathlib import Path

import yaml

MANIFEST = Path(__file__).resolve().parents[3] / "hack" / "krew" / "elasticjob.yaml"


def test_the_krew_manifest_is_whole_once_its_places_are_filled() -> None:
    text = re.sub(r"@(\w+)@", "v0.1.0", MANIFEST.read_text())
    plugin = yaml.safe_load(text)
    assert (plugin["kind"], plugin["metadata"]["name"]) == ("Plugin", "elasticjob")
    assert plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert {"version", "homepage", "shortDescription", "description", "platforms"} <= plugin["spec"].keys()
    assert len(plugin["spec"]["shortDescription"]) <= 50
    (platform,) = plugin["spec"]["platforms"]
    assert {"selector", "uri", "sha256", "bin"} <= platform.keys()
    assert platform["bin"] == "kubectl-elasticjob"
