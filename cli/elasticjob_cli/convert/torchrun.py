"""Convert a command line of torchrun or of a similar launcher."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from elasticjob_cli.convert import torchrun_args
from elasticjob_cli.convert.pods import FILL_IN
from elasticjob_cli.convert.result import Converted, Note, NoteKind, manifest
from elasticjob_cli.errors import InvalidManifest

_MOST = 51


def convert(words: Sequence[str], *, name: str, image: str) -> Converted:
    """Return the ElasticJob and its notes; an empty `name` is derived, an empty `image` must be filled in."""
    found = torchrun_args.unwrap(words)
    if found is None:
        raise InvalidManifest(f"{words[0]} is not a known launcher; give a torchrun command line, or a manifest")
    notes = [Note(option, kind, message) for option, kind, message in found.notes]
    if not image:
        notes.append(Note("image", NoteKind.FILL_IN, "a command line has none: set it, or give --image"))
    spec = {"replicas": 1, "nprocPerNode": 1, "maxRestarts": 0, **found.spec}
    if spec.get("minReplicas") == spec.get("maxReplicas"):
        spec |= {"minReplicas": None, "maxReplicas": None}
    container = {"name": "trainer", "image": image or FILL_IN, "command": list(found.command)}
    metadata = {"name": name or _name(str(found.given.get("rdzv-id", "")), found.command)}
    return Converted(manifest(metadata, spec, {"spec": {"containers": [container]}}), notes)


def _name(run_id: str, command: Sequence[str]) -> str:
    script = next((word for word in command if word.endswith(".py")), command[-1])
    plain = re.sub(r"[^a-z0-9]+", "-", (run_id or PurePosixPath(script).stem).lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"job-{plain}")[:_MOST].strip("-")
