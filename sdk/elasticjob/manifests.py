"""Read one ElasticJob manifest from YAML or a dictionary. The parser is strict: it reports every fault with its field.

The manifest remains as it was written, so the API server stores the user's fields without defaults of this package.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elasticjob.errors import InvalidJob, MissingExtra
from elasticjob_api import constants
from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import parse_job


def read_file(path: Path) -> dict[str, Any]:
    """Return the only ElasticJob in the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidJob(f"{path}: cannot be read: {error.strerror}; give the path of a manifest") from error
    except UnicodeDecodeError as error:
        raise InvalidJob(f"{path}: is not UTF-8 text; give the path of a manifest") from error
    return read_text(text, where=str(path))


def read_text(text: str, *, where: str = "the manifest") -> dict[str, Any]:
    """Return the only ElasticJob in a text of YAML (or JSON, which is YAML); messages begin with `where`."""
    yaml = _yaml()
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise InvalidJob(f"{where}: is not YAML: {reason}; check indentation, colons and quotes there") from error
    if len(documents) != 1:
        raise InvalidJob(f"{where}: has {len(documents)} documents; it must have exactly one {constants.KIND}")
    return validate(documents[0], where=where)


def validate(manifest: Any, *, where: str = "the manifest") -> dict[str, Any]:
    """Return a copy of the manifest; raise InvalidJob with every fault."""
    try:
        parse_job(manifest)
    except InvalidSpec as error:
        raise InvalidJob("\n".join(f"{where}: {fault}" for fault in error.errors), error.errors) from error
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        # The parser accepts any object as a pod template. A wrong type inside it appears only at its use.
        raise InvalidJob(f"{where}: cannot be parsed: {error}; compare it with the reference of fields") from error
    found: dict[str, Any] = copy.deepcopy(dict(manifest))
    return found


def without_status(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that can be created, so that a job of one cluster can be created on another."""
    server_fields = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}
    result = {name: item for name, item in manifest.items() if name != "status"}
    result["metadata"] = {name: item for name, item in manifest["metadata"].items() if name not in server_fields}
    return result


def _yaml() -> Any:
    try:
        import yaml  # noqa: PLC0415  # in an extra, and only needed for YAML
    except ModuleNotFoundError as error:
        raise MissingExtra("PyYAML, which reads manifests, is not installed: pip install 'elasticjob[cli]'") from error
    return yaml
