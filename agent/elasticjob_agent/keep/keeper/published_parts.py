"""The parts that a script publishes, by names in the directory of its round. Errors in these names are noted."""

from collections.abc import Iterable

from elasticjob_agent.keep.keeper.incoming_watch import IncomingWatch
from elasticjob_agent.keep.rules.step_name import is_like_step_name, parse_step_name
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.script_errors import ScriptErrorKind, ScriptErrors
from elasticjob_api.errors import RecordError
from elasticjob_api.kept_steps import Lineage

_CURE = "write a directory under another name, then rename it"


def find_parts(
    lineage: Lineage, names: Iterable[str], watch: IncomingWatch | None, errors: ScriptErrors
) -> list[tuple[KeptPart, str]]:
    """Return each published part with its name; note the errors of the script. `watch` knows what was not renamed."""
    return [
        (part, name)
        for name in names
        if is_like_step_name(name) and (part := _find_part(lineage, name, watch, errors)) is not None
    ]


def _find_part(lineage: Lineage, name: str, watch: IncomingWatch | None, errors: ScriptErrors) -> KeptPart | None:
    try:
        found = parse_step_name(name)
        part = KeptPart(found.step_of(lineage), found.index)
    except RecordError as error:
        errors.note(lineage, ScriptErrorKind.NAME, f"{error}, so it is not kept; {_CURE} to such a name")
        return None
    if watch is None or not watch.was_made_in_place(name):
        return part
    if watch.is_file_in_place(name):
        errors.note(lineage, ScriptErrorKind.FILE, f"{name} is a file, so it is not kept; {_CURE}")
    else:
        errors.note(lineage, ScriptErrorKind.IN_PLACE, f"{name} was made under this name, so it is not kept; {_CURE}")
    return None
