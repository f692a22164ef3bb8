"""Choose the conversion for a source, and check that an operator accepts the result."""

from collections.abc import Callable, Mapping
from typing import Any

from elasticjob_api import constants
from elasticjob_api.errors import InvalidSpec
from elasticjob_api.job import parse_job
from elasticjob_cli.convert import dlrover, pytorchjob, torchelastic
from elasticjob_cli.convert.result import Converted, Note, NoteKind
from elasticjob_cli.errors import InvalidManifest

_KINDS: Mapping[tuple[str, str], Callable[[Mapping[str, Any]], Converted]] = {
    ("kubeflow.org", "PyTorchJob"): pytorchjob.convert,
    ("elastic.pytorch.org", "ElasticJob"): torchelastic.convert,
    ("elastic.iml.github.io", "ElasticJob"): dlrover.convert,
}


def convert_object(source: Any, where: str) -> Converted:
    """Return the ElasticJob of a parsed manifest; raise InvalidManifest for a kind that cannot be converted."""
    if not isinstance(source, Mapping):
        raise InvalidManifest(f"{where}: is not a Kubernetes object; give a manifest, or a command line after --")
    group = str(source.get("apiVersion", "")).partition("/")[0]
    convert = _KINDS.get((group, str(source.get("kind", ""))))
    if convert is None:
        raise InvalidManifest(f"{where}: {_unknown(group, source)}")
    return validate(convert(source))


def _unknown(group: str, source: Mapping[str, Any]) -> str:
    if group == constants.GROUP and source.get("kind") == constants.KIND:
        return f"is already an ElasticJob of {constants.GROUP}; use `kubectl apply -f`"
    known = ", ".join(f"{kind} of {of}" for of, kind in _KINDS)
    return f"{source.get('kind')} of {group or 'no group'} cannot be converted; the known kinds are {known}"


def validate(made: Converted) -> Converted:
    """Return the result with a note for each fault that an operator would reject."""
    # A source may lack fields that an ElasticJob requires.
    try:
        parse_job(made.manifest)
    except InvalidSpec as error:
        faults = [Note(fault.path, NoteKind.FILL_IN, fault.message) for fault in error.errors]
        return Converted(made.manifest, [*made.notes, *faults])
    return made
