"""From YAML or a dictionary to one checked ElasticJob manifest. Strict: every fault is reported, with its field.

The manifest is kept as it was written, so that the API server stores what the user meant and no defaults of ours.
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
    """The one ElasticJob in the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidJob(f"{path}: cannot be read: {error.strerror}; give the path of a manifest") from error
    except UnicodeDecodeError as error:
        raise InvalidJob(f"{path}: is not UTF-8 text; give the path of a manifest") from error
    return read_text(text, where=str(path))


def read_text(text: str, *, where: str = "the manifest") -> dict[str, Any]:
    """The one ElasticJob in a text of YAML (or JSON, which is YAML); `where` begins what is said of its faults."""
    yaml = _yaml()
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise InvalidJob(f"{where}: is not YAML: {said}; check indentation, colons and quotes there") from error
    if len(documents) != 1:
        raise InvalidJob(f"{where}: has {len(documents)} documents; it must be one {constants.KIND}")
    return validate(documents[0], where=where)


def validate(manifest: Any, *, where: str = "the manifest") -> dict[str, Any]:
    """A copy of the manifest; raises InvalidJob with every fault found."""
    try:
        parse_job(manifest)
    except InvalidSpec as error:
        raise InvalidJob("\n".join(f"{where}: {fault}" for fault in error.errors), error.errors) from error
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        # A pod template is any object to the contract: what is no object where it must be one is found by use.
        raise InvalidJob(f"{where}: cannot be understood: {error}; compare it with the reference of fields") from error
    found: dict[str, Any] = copy.deepcopy(dict(manifest))
    return found


def without_status(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What may be created: a job that was read from one cluster can be given to another."""
    ours = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}
    kept = {name: item for name, item in manifest.items() if name != "status"}
    kept["metadata"] = {name: item for name, item in manifest["metadata"].items() if name not in ours}
    return kept


def _yaml() -> Any:
    try:
        import yaml  # noqa: PLC0415  # only whoever reads YAML needs it, and it is in an extra
    except ModuleNotFoundError as error:
        raise MissingExtra("PyYAML, which reads manifests, is not installed: pip install 'elasticjob[cli]'") from error
    return yaml
