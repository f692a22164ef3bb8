"""The real command line with a real API server: a kubeconfig, and the result of a command."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from testing.waiting import scaled
from tests.integration.cli.runs import Ended

ELASTICJOB = Path(sys.executable).parent / "elasticjob"
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Command:
    """`elasticjob` with this kubeconfig; its output is a pipe, as for scripts."""

    kubeconfig: Path
    folder: Path

    def __call__(self, *arguments: object, code: int | None = 0, **environ: str) -> Ended:
        """Run the command to its end, and check its exit code (None: any)."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PYTHONDONTWRITEBYTECODE": "1", **environ}
        done = subprocess.run(
            [ELASTICJOB, *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=scaled(_LIMIT_S),
            check=False,
        )
        assert code in {None, done.returncode}, f"{done.returncode}: {done.stdout}{done.stderr}"
        return Ended(done.returncode, done.stdout, done.stderr)
