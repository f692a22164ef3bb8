"""Containers for the payload's tests: images without any file of this project, with the payload as in a pod.

Only this file runs docker. A container has the pod's restrictions: a user without an entry in passwd, no capability,
and a read-only root. It has the host's network, where a test's etcd is.
"""

import os
import secrets
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from testing.waiting import scaled

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("ELASTICJOB_CACHE", "~/.cache/elasticjob")).expanduser()
ENVIRON = {**os.environ, "PATH": f"{CACHE / 'bin'}:{os.environ['PATH']}"}

AGENT_IMAGE = "elasticjob/agent:dev"
AGENT = "/opt/elasticjob/bin/elasticjob-agent"
USER = "54321:54321"
OLD_GLIBC, GLIBC, MUSL, NOTHING = "debian:bullseye-slim", "debian:bookworm-slim", "musl:local", "elasticjob/etcd:dev"

_BUILD_S = 1200.0
_RUN_S = 60.0


def provide() -> bool:
    """Make the images for the tests, and start docker if needed. Return True if docker was started."""
    started = (
        subprocess.run(("docker", "info"), capture_output=True, check=False, timeout=scaled(_RUN_S)).returncode != 0
    )
    for command in (("hack/kind/docker-up",), ("images/build", "agent", "etcd"), ("hack/kind/base-images", *_bases())):
        subprocess.run(command, cwd=ROOT, env=ENVIRON, check=True, timeout=scaled(_BUILD_S))
    return started


def stop_docker() -> None:
    """Stop the daemon that `provide` started."""
    subprocess.run((ROOT / "hack/kind/docker-down",), env=ENVIRON, check=True, timeout=scaled(120))


def _bases() -> tuple[str, ...]:
    return ("debian", "bullseye", "musl")


def docker(*arguments: str, expect: int = 0) -> str:
    """Return a docker command's output, both streams; it must exit with `expect`."""
    done = subprocess.run(("docker", *arguments), capture_output=True, text=True, check=False, timeout=scaled(_RUN_S))
    output = done.stdout + done.stderr
    assert done.returncode == expect, f"docker {' '.join(arguments)} ended with {done.returncode}:\n{output}"
    return output


@dataclass
class Payload:
    """The payload in a volume, copied by its own image as a pod's init container does."""

    volume: str = field(default_factory=lambda: f"elasticjob-payload-{secrets.token_hex(4)}")

    def install(self) -> str:
        """Copy it, and return the output. The volume's root belongs to root, as an emptyDir's does."""
        docker("run", "--rm", "-u", "0", "-v", f"{self.volume}:/v", GLIBC, "chmod", "0777", "/v")
        mount = ("-v", f"{self.volume}:/elasticjob-target")
        return docker("run", "--rm", *RESTRICTED, *mount, AGENT_IMAGE, "--install", "/elasticjob-target")

    def remove(self) -> None:
        """The volume."""
        docker("volume", "rm", "-f", self.volume)

    def run(self, image: str, *command: str, options: tuple[str, ...] = (), expect: int = 0) -> str:
        """Run a command in a container of this image with the payload in place; return the output."""
        mount = ("-v", f"{self.volume}:/opt/elasticjob:ro", "--entrypoint", command[0])
        return docker("run", "--rm", *RESTRICTED, *mount, *options, image, *command[1:], expect=expect)


RESTRICTED = (
    "--user",
    USER,
    "--cap-drop",
    "ALL",
    "--read-only",
    "--network",
    "host",
    "--security-opt",
    "no-new-privileges",
)
