"""One namespace of the API server for tests, with kubectl: apply, read, scale, patch.

Every method asserts success with kubectl's own message; `refused` expects a rejection and returns it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testing.kubectl_table import only_row
from testing.servers.apiserver import ApiServer
from testing.waiting import eventually


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace."""

    server: ApiServer
    name: str

    def create(self) -> None:
        """Create it, and wait until jobs are served in it: discovery follows a new CRD with a short delay."""
        self.kubectl("create", "namespace", self.name)
        get = ("get", "elasticjobs.elasticjob.io")
        eventually(
            lambda: self.server.kubectl(*get, namespace=self.name).returncode == 0, within_s=30, what="CRD served"
        )

    def kubectl(self, *arguments: str, stdin: Mapping[str, Any] | None = None) -> str:
        """Return the standard output of a command that must succeed."""
        done = self.server.kubectl(*arguments, namespace=self.name, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, manifest: Mapping[str, Any], *options: str) -> dict[str, Any]:
        """Run `kubectl apply`; return the job as it was stored."""
        stored: dict[str, Any] = json.loads(self.kubectl("apply", "-o", "json", *options, "-f", "-", stdin=manifest))
        return stored

    def refused(self, *arguments: str, stdin: Mapping[str, Any] | None = None) -> str:
        """Return kubectl's message for a rejected command, in one line."""
        done = self.server.kubectl(*arguments, namespace=self.name, stdin=stdin)
        assert done.returncode != 0, f"not refused: {done.stdout}"
        return " ".join(done.stderr.split())

    def get(self, name: str) -> dict[str, Any]:
        """Return the job as it is."""
        job: dict[str, Any] = json.loads(self.kubectl("get", "ejob", name, "-o", "json"))
        return job

    def patch(self, name: str, change: Mapping[str, Any], *options: str) -> None:
        """Run `kubectl patch` with a merge patch."""
        self.kubectl("patch", "ejob", name, "--type=merge", *options, "-p", json.dumps(change))

    def row(self, *arguments: str) -> dict[str, str]:
        """Return the only row of `kubectl get ejob …` by column."""
        return only_row(self.kubectl("get", "ejob", *arguments))
