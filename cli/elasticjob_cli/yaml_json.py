"""Read and write objects as YAML and JSON. PyYAML is in an extra; without it, an error names the extra."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elasticjob_api.nesting import JOB_LEVELS, cut, is_deeper
from elasticjob_cli.errors import InvalidManifest, MissingExtra

_C1 = re.compile("[\x7f-\x9f]")
"""Control characters that a terminal may obey and that JSON does not escape."""
_MOST_LEVELS = JOB_LEVELS + 20
"""Levels of a list of jobs, each as deep as a job may be."""


def of_server(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as kubectl prints it: without `managedFields`."""
    meta = {name: value for name, value in (manifest.get("metadata") or {}).items() if name != "managedFields"}
    return {**manifest, "metadata": meta}


def as_json(value: Any) -> str:
    """Return JSON, indented by two, with a newline at the end."""
    text = json.dumps(_shallow(value), indent=2, ensure_ascii=False)
    return _C1.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def as_yaml(value: Any) -> str:
    """Return YAML with the fields in their order."""
    text: str = _yaml().safe_dump(_shallow(value), sort_keys=False, allow_unicode=True, width=120)
    return text


def _shallow(value: Any) -> Any:
    """Return the value, cut where it is nested too deeply to be written."""
    # An API server stores more levels than Python can write. Only an invalid job has so many.
    return cut(value, _MOST_LEVELS) if is_deeper(value, _MOST_LEVELS) else value


def read_yaml(name: str) -> Any:
    """Return the only document of a file, or of standard input for `-`; raise InvalidManifest."""
    yaml = _yaml()
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        documents = [document for document in _documents(name, text) if document is not None]
    except FileNotFoundError as error:
        raise InvalidManifest(
            f"{name}: there is no such file; give the path of a manifest, or - for standard input"
        ) from error
    except OSError as error:
        raise InvalidManifest(f"{name}: cannot be read: {error.strerror}; give the path of a manifest") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InvalidManifest(f"{name}: is not YAML: {reason}; check indentation, colons and quotes there") from error
    except RecursionError as error:
        raise InvalidManifest(f"{name}: is nested too deeply to be read; give a flatter manifest") from error
    if len(documents) != 1:
        raise InvalidManifest(f"{name}: has {len(documents)} documents; give a file with exactly one")
    return documents[0]


def _documents(name: str, text: str) -> Iterator[Any]:
    yaml = _yaml()
    from elasticjob_cli.yaml_size import check_size  # noqa: PLC0415  # needs PyYAML

    for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
        check_size(name, node)
        loader = yaml.SafeLoader("")
        try:
            yield loader.construct_document(node)
        finally:
            loader.dispose()


def _yaml() -> Any:
    try:
        import yaml  # noqa: PLC0415  # in an extra, and slow to import
    except ModuleNotFoundError as error:
        raise MissingExtra("PyYAML is not installed: pip install 'elasticjob[cli]'") from error
    return yaml
