"""The zygote's report about its imports, as parsed from its JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elasticjob_agent.warm_start.greeting import Greeting, parse_greeting

_MAX_TEXT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadReport:
    """The effects of the imports; see user_python/warm_start/elasticjob_warm_start/preload.py."""

    seconds: float
    modules: int
    top_level: frozenset[str]
    brought_by: Mapping[str, str] = field(default_factory=dict)
    """Package → the package whose import has loaded it."""
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Package → the variables of one rank that it read."""
    script_variables: Mapping[str, str] = field(default_factory=dict)
    """Variable that the script has set or removed → the module that was imported before that."""
    script_reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Variable of the script → the packages, or modules of them, that have read it without the script's value."""
    script_writes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Variable of the script → the packages whose import has given it another value."""
    writes: tuple[str, ...] = ()
    """Variables of one rank that an import has changed."""
    temporary: Mapping[str, str] = field(default_factory=dict)
    """Module → what it made in a folder for temporary files."""
    side_effects: tuple[tuple[str, str, str], ...] = ()
    """Module, kind and description of what stayed in the process."""
    outside: tuple[str, ...] = ()
    unsafe: Mapping[str, str] = field(default_factory=dict)
    """Package → an act of its import that is right for one process only, as the end of a sentence."""
    in_context: Mapping[str, str] = field(default_factory=dict)
    """Module that was not imported, as the script imports it in a context → this, as the end of a sentence."""
    before_script: tuple[str, ...] = ()
    """Such acts of code that each Python runs before its script, as sentences."""
    different: tuple[str, ...] = ()
    """Modules that the script has from another file."""
    folder_changed: bool = False
    tracer: bool = False
    greeting: Greeting | None = None
    """The interpreter of the zygote."""
    files: Mapping[str, int] = field(default_factory=dict)
    """The files of all modules, each with its time of modification in nanoseconds."""
    protocol: int = 1
    """The version of the messages of this zygote."""
    failure: str = ""
    """Why the imports could not be judged, as a reason for a cold start; then nothing else is known."""
    changed: str = ""
    """A file that is not the expected one; then nothing was imported."""


def parse_report(data: bytes) -> PreloadReport | None:
    """Return the report; None if this is none: the imports run in the same process, and may write what they like."""
    try:
        value = json.loads(data)
        return PreloadReport(
            seconds=float(value["seconds"]),
            modules=int(value["modules"]),
            top_level=frozenset(map(str, value["top_level"])),
            brought_by={str(package): str(by) for package, by in value.get("brought_by", {}).items()},
            reads={str(package): _texts(names) for package, names in value["reads"].items()},
            script_variables={str(name): str(module) for name, module in value.get("script_variables", {}).items()},
            script_reads={str(name): _texts(readers) for name, readers in value.get("script_reads", {}).items()},
            script_writes={str(name): _texts(writers) for name, writers in value.get("script_writes", {}).items()},
            writes=_texts(value["writes"]),
            temporary={str(module): str(what) for module, what in value["temporary"].items()},
            side_effects=tuple((str(name), str(kind), str(what)) for name, kind, what in value["side_effects"]),
            outside=_texts(value["outside"]),
            unsafe={str(package): str(what)[:_MAX_TEXT] for package, what in value["unsafe"].items()},
            in_context={str(name): str(what)[:_MAX_TEXT] for name, what in value.get("in_context", {}).items()},
            before_script=tuple(each[:_MAX_TEXT] for each in _texts(value.get("before_script", ()))),
            different=_texts(value["different"]),
            folder_changed=bool(value["folder_changed"]),
            tracer=bool(value["tracer"]),
            greeting=parse_greeting(str(value.get("greeting", "")).encode("ascii", "replace")),
            files={str(path): int(modified_ns) for path, modified_ns in value.get("files", {}).items()},
            protocol=int(value.get("protocol", 1)),
            failure=_printable(str(value.get("failure", "")))[:_MAX_TEXT],
            changed=_printable(str(value.get("changed", "")))[:_MAX_TEXT],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _printable(text: str) -> str:
    """Return this text in characters that each stream can write: a path may have others."""
    return text.encode("utf-8", "backslashreplace").decode()


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values))
