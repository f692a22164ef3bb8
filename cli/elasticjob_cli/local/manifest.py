"""Read a file as a valid ElasticJob that this machine can run, or raise one sentence for each fault.

Each sentence begins with file and line, names the field, and ends with the cure. Nothing is started or changed here.
`elasticjob_api` and the operator define a valid manifest; `supported` checks what this machine can run.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from elasticjob_api import constants
from elasticjob_api.errors import CodecError, FieldError, InvalidSpec
from elasticjob_api.job import ElasticJob, parse_job
from elasticjob_cli.errors import InvalidManifest
from elasticjob_cli.local.environment import Machine
from elasticjob_cli.local.host_paths import host_path_faults
from elasticjob_cli.local.pod_template import pod_schema_errors
from elasticjob_cli.local.process_limit import process_faults
from elasticjob_cli.local.supported import pod_faults
from elasticjob_cli.yaml_size import check_size
from elasticjob_operator.render.validation import template_errors

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")
_TEMPLATE = "spec.template.spec"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """Read YAML as Kubernetes does: text that looks like a date remains text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML reads this class attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest that can run here: the object as written, and the parsed job."""

    path: Path
    object: Mapping[str, Any]
    job: ElasticJob

    @property
    def folder(self) -> Path:
        """Working directory of the workers: relative paths in their command are beside the manifest."""
        return self.path.resolve().parent


def read_manifest(path: Path) -> Manifest:
    """Return the only ElasticJob in the file; raise InvalidManifest with a line for each fault."""
    document = _only_document(path, _text(path))
    if document is None:
        raise InvalidManifest(f"{path}: the file is empty; it must contain one {constants.KIND}")
    check_size(str(path), document)
    if faults := list(_duplicates(document)):
        raise _invalid(path, document, faults)
    value = _construct(path, document)
    if faults := list(_shape_errors(value)):
        raise _invalid(path, document, faults)
    try:
        job = parse_job(value)
    except InvalidSpec as error:
        is_of_type = isinstance(error.__cause__, CodecError)
        raise _invalid(path, document, map(_with_cure, error.errors) if is_of_type else error.errors) from error
    if faults := list(_local_errors(job)) or list(template_errors(job)):
        raise _invalid(path, document, faults)
    return Manifest(path, value, job)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InvalidManifest(f"{path}: there is no such file; give the path of a manifest") from error
    except IsADirectoryError as error:
        raise InvalidManifest(f"{path}: is a folder; give the path of a manifest in it") from error
    except UnicodeDecodeError as error:
        raise InvalidManifest(f"{path}: is not YAML: it is not UTF-8 text; give the path of a manifest") from error
    except OSError as error:
        raise InvalidManifest(f"{path}: cannot be read: {error.strerror}") from error


def _only_document(path: Path, text: str) -> yaml.Node | None:
    try:
        documents = [node for node in yaml.compose_all(text, Loader=_Loader) if not _is_null(node)]
    except yaml.YAMLError as error:
        raise InvalidManifest(_yaml_sentence(path, error)) from error
    except RecursionError as error:
        raise InvalidManifest(f"{path}: is nested too deeply to be read; give a flatter manifest") from error
    if len(documents) > 1:
        raise InvalidManifest(
            f"{path}:{_line(documents[1])}: a second document begins here; `elasticjob run` accepts one"
            f" {constants.KIND}: move the other documents to their own files"
        )
    return documents[0] if documents else None


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _yaml_sentence(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    location = f"{path}:{mark.line + 1}" if mark else f"{path}"
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
    return f"{location}: is not YAML: {problem}; check indentation, colons and quotes there"


def _construct(path: Path, document: yaml.Node) -> Any:
    loader = _Loader("")
    try:
        return loader.construct_document(document)
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", None) or error
        mark = getattr(error, "problem_mark", None)
        location = f"{path}:{mark.line + 1}" if mark else f"{path}"
        raise InvalidManifest(f"{location}: is YAML that a manifest must not use: {problem}") from error
    finally:
        loader.dispose()


def _duplicates(node: yaml.Node, path: str = "") -> Iterator[FieldError]:
    """Yield a fault for each key that is given twice."""
    # YAML itself would silently use the last one.
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            yield from _duplicates(item, f"{path}[{i}]")
    if isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, item in node.value:
            name = str(key.value)
            field = f"{path}.{name}" if path else name
            if name in names:
                yield FieldError(field, "is given twice; remove one of them")
            names.add(name)
            yield from _duplicates(item, field)


def _shape_errors(value: Any) -> Iterator[FieldError]:
    """Yield the faults in the shape of the pod template."""
    # Later checks rely on lists being lists.
    for step in ("spec", "template", "spec"):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, dict):
        yield from pod_schema_errors(value, _TEMPLATE)


def _local_errors(job: ElasticJob) -> Iterator[FieldError]:
    """Yield faults of a job that only a cluster could run, and faults that otherwise the API server finds."""
    if not _NAME.fullmatch(job.metadata.namespace):
        why = f"is {job.metadata.namespace!r}; it must be lower-case letters, digits and '-', 63 at most"
        yield FieldError("metadata.namespace", why)
    yield from pod_faults(job.spec.template["spec"], _TEMPLATE)
    yield from host_path_faults(job, _TEMPLATE)
    yield from process_faults(job.spec, Machine())
    if job.spec.suspend:
        yield FieldError("spec.suspend", "is true, so the job would never start; set it to false, or remove it")


_CURES = {
    "spec.nprocPerNode": "it must be a whole number, 1 or more, or auto",
    "spec.replicas": "it must be a whole number, 1 or more",
}
"""Cures for a value of the wrong type, where the parser names the type only."""


def _invalid(path: Path, document: yaml.Node, faults: Iterable[FieldError]) -> InvalidManifest:
    lines = [f"{path}:{_line_of(document, fault.path)}: {fault}" for fault in faults]
    return InvalidManifest("\n".join(lines))


def _with_cure(fault: FieldError) -> FieldError:
    cure = _CURES.get(fault.path)
    return fault if cure is None else FieldError(fault.path, f"{fault.message}; {cure}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _line_of(document: yaml.Node, field: str) -> int:
    """Return the line of `field`, or of the deepest part of its path that exists."""
    node, line = document, _line(document)
    for step in _STEP.findall(field):
        entry = _entry(node, step)
        if entry is None:
            break
        line, node = entry
    return line


def _entry(node: yaml.Node, step: str) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and step.startswith("["):
        index = int(step[1:-1])
        return (_line(node.value[index]), node.value[index]) if index < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        # Of a key that is given twice, the last one is the fault.
        return next(((_line(key), value) for key, value in reversed(node.value) if key.value == step), None)
    return None
