"""docs/quickstart-kubernetes.md is true: a test runs each of its commands, and compares the output with the page."""

import os
import subprocess
from pathlib import Path

import pytest

from e2e.programs import ENVIRON, ROOT
from e2e.space import Space
from e2e.walkthrough import Reader, Step, steps

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1500)]

QUICKSTART = (ROOT / "docs" / "quickstart-kubernetes.md").read_text()


def test_the_quickstart_from_the_first_job_to_its_end_is_as_written(own_space: Space, tmp_path: Path) -> None:
    part = QUICKSTART[QUICKSTART.index("\n## 2. ") : QUICKSTART.index("    $ kubectl delete -f deploy")]
    reader = Reader(_environment(own_space, tmp_path / "kubeconfig"), own_space.name)
    for step in steps(part):
        print("$", step.command)
        reader.follow(step)


def test_the_quickstarts_commands_show_whether_the_installation_is_ready(own_space: Space, tmp_path: Path) -> None:
    part = QUICKSTART[QUICKSTART.index("### Is it ready?") : QUICKSTART.index("\n## 2. ")]
    environment = _environment(own_space, tmp_path / "kubeconfig")
    for step in steps(part):
        command = ["bash", "-o", "pipefail", "-c", step.command]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert (done.returncode, bool(done.stdout)) == (0, True), (step.command, done.stderr)


def _environment(space: Space, file: Path) -> dict[str, str]:
    """Return the environment of a reader: the cluster and the namespace are the current ones."""
    cluster = space.cluster
    file.write_text(cluster.kubectl("config", "view", "--minify", "--flatten", "--raw"))
    cluster.kubectl("config", "set-context", "--current", f"--namespace={space.name}", f"--kubeconfig={file}")
    folder = Path(cluster.command()[0]).parent
    return {**ENVIRON, "KUBECONFIG": str(file), "PATH": f"{folder}{os.pathsep}{ENVIRON['PATH']}"}


def test_a_page_is_read_as_it_is_meant() -> None:
    typed, printed = "    $ for i in a; do\n    >   echo $i\n    > done\n", "    a\n\n    b\n"
    page = f"Text.\n\n{typed}{printed}    $ true\n\nMore.\n\n    not a command\n"
    assert steps(page) == [Step("for i in a; do\n  echo $i\ndone", ("a", "b")), Step("true", ())]
