"""The last state of the project before leases, installations and three members: its chart, and its images.

They are taken from the history of this repository, which must therefore be present.
"""

from pathlib import Path

from e2e.programs import ROOT, run, show

COMMIT = "d508435e2e36076ffa03237142dc4294875166af"
TAG = COMMIT[:12]
OPERATOR_IMAGE, DIGITS_IMAGE = f"elasticjob/operator:{TAG}", f"elasticjob/digits:{TAG}"
_BUILD_LIMIT_S = 600.0


def build(folder: Path) -> Path:
    """Write the old files into this folder and build the images; return the chart's path."""
    run("git", "-C", ROOT, "archive", "--output", folder / "old.tar", COMMIT)
    run("tar", "-C", folder, "-xf", folder / "old.tar")
    script = folder / "images" / "build"
    # Its tags are those of the current images.
    script.write_text(script.read_text().replace(":dev$suffix", f":{TAG}").replace(":local$suffix", f":{TAG}"))
    show(script, "operator", "digits", limit_s=_BUILD_LIMIT_S)
    return folder / "charts" / "elasticjob"


def values() -> list[str]:
    """Return the chart's values in the form of --set: the names of the images, and nothing else."""
    return [f"operator.image.tag={TAG}", "etcd.image.repository=elasticjob/etcd", "etcd.image.tag=dev"]
