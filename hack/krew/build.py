#!/usr/bin/env python3
"""krew/build.py URI [FOLDER] — build the archive of `kubectl elasticjob` and the krew manifest of a release.

URI is where the archive will be, FOLDER (dist/krew) where both are put. Libraries come from the environment that runs
this, which `make` pins by hash. Some have compiled parts, so an archive is for this kind of machine and this Python.
"""

import hashlib
import importlib.metadata
import platform
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("kubernetes", "PyYAML", "shtab")
OURS = ("api/elasticjob_api", "etcd/elasticjob_etcd", "agent/elasticjob_agent", "sdk/elasticjob", "cli/elasticjob_cli")
NAME = "kubectl-elasticjob"
HOMEPAGE = "https://github.com/elasticjob/elasticjob"
PYTHON = ".".join(map(str, sys.version_info[:2]))
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
MAIN = f'''#!/usr/bin/env python{PYTHON}
"""kubectl elasticjob, from the archive beside this file."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
sys.dont_write_bytecode = False
from elasticjob_cli.main import main

sys.exit(main())
'''
KEPT = {".py", ".pem", ".typed", ".so"}


def closure() -> dict[str, importlib.metadata.Distribution]:
    """Return the libraries and all that they need, without extras."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(ROOTS)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        found[name] = distribution = importlib.metadata.distribution(name)
        wanted = [
            each for each in distribution.requires or () if "extra ==" not in each and "python_version" not in each
        ]
        waiting += [re.match(r"[\w.-]+", each)[0] for each in wanted]  # type: ignore[index]  # a requirement has a name
    return found


def sources() -> Iterator[tuple[Path, Path]]:
    """Return every file, and its path in the archive."""
    for distribution in closure().values():
        for file in distribution.files or ():
            if file.suffix in KEPT and ".." not in file.parts and "__pycache__" not in file.parts:
                yield Path(str(file.locate())), Path(file)
    for folder in map(ROOT.joinpath, OURS):
        yield from ((path, Path(folder.name) / path.relative_to(folder)) for path in folder.rglob("*.py"))
    yield ROOT / "crds/elasticjob.yaml", Path("elasticjob_cli/crds/elasticjob.yaml")


def program(root: Path) -> None:
    """Write the program, and its libraries into `lib`."""
    library = root / "lib"
    for source, path in sources():
        (library / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, library / path)
    version = importlib.metadata.version("elasticjob")
    info = library / f"elasticjob-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: elasticjob\nVersion: {version}\n")
    (root / NAME).write_text(MAIN)
    (root / NAME).chmod(0o755)
    shutil.copyfile(ROOT / "LICENSE", root / "LICENSE")


def main() -> int:
    """Build the archive; return the exit code."""
    if len(sys.argv) not in {2, 3}:
        print((__doc__ or "").partition("\n")[0], file=sys.stderr)
        return 2
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "dist" / "krew"  # noqa: PLR2004 -- URI and FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{NAME}-linux-{ARCH}.tar.gz"
    with tempfile.TemporaryDirectory() as made, tarfile.open(archive, "w:gz") as tar:
        program(Path(made))
        tar.add(made, ".")
    values = {
        "VERSION": f"v{importlib.metadata.version('elasticjob')}",
        "HOMEPAGE": HOMEPAGE,
        "ARCH": ARCH,
        "PYTHON": PYTHON,
        "URI": sys.argv[1],
        "SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    text = (Path(__file__).parent / "elasticjob.yaml").read_text()
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    made = re.sub(r"@(\w+)@", lambda word: values[word[1]], text)
    (folder / "elasticjob.yaml").write_text(made)
    print(f"{folder}: {archive.name} ({archive.stat().st_size >> 20} MiB), elasticjob.yaml")
    return 0


if __name__ == "__main__":
    sys.exit(main())
