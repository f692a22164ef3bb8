"""A manifest as it is run on this machine: the same job, with what only this machine knows filled in. Pure."""

import copy
from collections.abc import Mapping
from typing import Any

from elasticjob_api.spec import AgentMode

SCALE_UP_DELAY_S = 1
"""Pods start in tenths of a second here: there is nobody to wait long for."""
REPORT_PERIOD_S = 1
"""A handful of agents may report often; progress is seen, and struck at, to the second."""


def localized(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object to create: no status, the installed agent, and delays that fit where the manifest names none."""
    given = copy.deepcopy(dict(manifest))
    metadata, spec = given["metadata"], given["spec"]
    kept = {name: metadata[name] for name in ("name", "labels", "annotations") if metadata.get(name)}
    namespace = metadata.get("namespace") or "default"
    agent = {"reportPeriodSeconds": REPORT_PERIOD_S, **spec.get("agent", {}), "mode": AgentMode.PROVIDED.value}
    scaling = {"scaleUpDelaySeconds": SCALE_UP_DELAY_S, **spec.get("scaling", {})}
    return {
        "apiVersion": given["apiVersion"],
        "kind": given["kind"],
        "metadata": {**kept, "namespace": namespace},
        "spec": {**spec, "agent": agent, "scaling": scaling},
    }


def images_of(manifest: Mapping[str, Any]) -> list[str]:
    """The images that are ignored here, each once."""
    pod = manifest["spec"]["template"]["spec"]
    containers = [*(pod.get("initContainers") or []), *pod["containers"]]
    return list(dict.fromkeys(str(c["image"]) for c in containers if c.get("image")))
