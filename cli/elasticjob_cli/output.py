"""Objects as YAML and JSON, in and out; PyYAML is in an extra, and its absence is one sentence."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elasticjob_cli.errors import InvalidManifest, MissingExtra


def of_server(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """An object as kubectl prints it: without who has written which field."""
    meta = {name: value for name, value in (manifest.get("metadata") or {}).items() if name != "managedFields"}
    return {**manifest, "metadata": meta}


def as_json(value: Any) -> str:
    """Indented by two, with a newline at the end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def as_yaml(value: Any) -> str:
    """In the order given."""
    text: str = _yaml().safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
    return text


def read_yaml(name: str) -> Any:
    """The one document in a file, or in standard input for `-`; raises InvalidManifest."""
    yaml = _yaml()
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except FileNotFoundError as error:
        raise InvalidManifest(f"{name}: there is no such file; give the path of a manifest, or - for stdin") from error
    except OSError as error:
        raise InvalidManifest(f"{name}: cannot be read: {error.strerror}; give the path of a manifest") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise InvalidManifest(f"{name}: is not YAML: {said}; check indentation, colons and quotes there") from error
    if len(documents) != 1:
        raise InvalidManifest(f"{name}: has {len(documents)} documents; give one at a time")
    return documents[0]


def _yaml() -> Any:
    try:
        import yaml  # noqa: PLC0415  # only whoever reads or writes YAML waits for it, and it is in an extra
    except ModuleNotFoundError as error:
        raise MissingExtra("PyYAML is not installed: pip install 'elasticjob[cli]'") from error
    return yaml
