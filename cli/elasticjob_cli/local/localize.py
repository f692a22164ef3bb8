"""A manifest as it runs on this machine: the same job, with defaults for this machine."""

import copy
from collections.abc import Mapping
from typing import Any

from elasticjob_api.spec import AgentMode

SCALE_UP_DELAY_S = 1
"""Seconds: pods start in tenths of a second here, so a longer wait for more nodes has no use."""
REPORT_PERIOD_S = 1
"""Seconds: few agents may report often, so that progress is exact to the second."""


def localized(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object to create: no status, the installed agent, and short delays where the manifest has none."""
    given = copy.deepcopy(dict(manifest))
    metadata, spec = given["metadata"], given["spec"]
    metadata_fields = {name: metadata[name] for name in ("name", "labels", "annotations") if metadata.get(name)}
    namespace = metadata.get("namespace") or "default"
    agent = {"reportPeriodSeconds": REPORT_PERIOD_S, **spec.get("agent", {}), "mode": AgentMode.PROVIDED.value}
    scaling = {"scaleUpDelaySeconds": SCALE_UP_DELAY_S, **spec.get("scaling", {})}
    return {
        "apiVersion": given["apiVersion"],
        "kind": given["kind"],
        "metadata": {**metadata_fields, "namespace": namespace},
        "spec": {**spec, "agent": agent, "scaling": scaling},
    }


def images_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the images that are ignored here, each once."""
    pod = manifest["spec"]["template"]["spec"]
    containers = [*(pod.get("initContainers") or []), *pod["containers"]]
    return list(dict.fromkeys(str(c["image"]) for c in containers if c.get("image")))
