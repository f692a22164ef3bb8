"""The API server's audit log, its policy, and the permissions of roles to compare it with."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CREATED = 201
_FORBIDDEN = 403
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata"}],
    "omitStages": ["RequestReceived"],
}

Used = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Audit:
    """The log of one API server, started with `flags`. The constructor writes the policy into the folder."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "policy.json").write_text(json.dumps(POLICY))

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the flags for the API server."""
        return (
            f"--audit-policy-file={self.folder / 'policy.json'}",
            f"--audit-log-path={self.folder / 'audit.log'}",
            "--audit-log-mode=blocking",
        )

    def requests(self, account: str) -> list[dict[str, Any]]:
        """Return all requests of a service account for resources (`namespace:name`)."""
        lines = (self.folder / "audit.log").read_text().splitlines()
        events = [json.loads(line) for line in lines if line.endswith("}")]
        user = f"system:serviceaccount:{account}"
        return [e for e in events if e["user"]["username"] == user and "objectRef" in e]

    def used(self, account: str) -> Used:
        """Return resource (with its subresource) and verb; an apply that created something is a `create`, too."""
        found = set()
        for event in self.requests(account):
            of = event["objectRef"]
            resource = of["resource"] + (f"/{of['subresource']}" if "subresource" in of else "")
            found.add((resource, event["verb"]))
            if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == _CREATED:
                found.add((resource, "create"))
        return frozenset(found)

    def refused(self, account: str) -> list[str]:
        """Return the rejected requests of an account."""
        requests = self.requests(account)
        return [f"{e['verb']} {e['requestURI']}" for e in requests if e["responseStatus"]["code"] == _FORBIDDEN]


def granted(manifests: list[dict[str, Any]]) -> Used:
    """Return the permissions of the roles among these manifests."""
    rules = [rule for manifest in manifests for rule in manifest.get("rules", [])]
    return frozenset((resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"])
