#!/usr/bin/env python3
"""crd-reference [--check] — write docs/reference/elasticjob.md from crds/elasticjob.yaml; with --check only compare.

Every sentence of the page is from the CRD, so that `kubectl explain` and the page cannot disagree.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "crds" / "elasticjob.yaml"
PAGE = ROOT / "docs" / "reference" / "elasticjob.md"
HEAD = """# ElasticJob

<!-- Written by hack/reference/crd.py from crds/elasticjob.yaml: change that instead, and run it again. -->

`elasticjobs.elasticjob.io/v1alpha1`, short name `ejob`. `kubectl explain ejob.spec` prints the same on a cluster.
Seconds are whole numbers. The API server rejects an object that breaks a rule, with the rule's message.
"""


def page(crd: Mapping[str, Any]) -> str:
    """Return the whole page."""
    version = crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    lines = [HEAD, *_columns(version)]
    lines += ["## Rules for the whole object", "", *_rules(schema), ""]
    for name in ("spec", "status"):
        lines += _object(name, schema["properties"][name])
    return "\n".join(lines).rstrip() + "\n"


def _columns(version: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## Columns of `kubectl get ejob`", "", "| Column | Shown | Meaning |", "| --- | --- | --- |")
    for column in version["additionalPrinterColumns"]:
        shown = "`-o wide`" if column.get("priority") else "always"
        yield f"| {column['name'].upper()} | {shown} | {_text(column)} |"
    yield ""


def _object(path: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a heading, its table, its rules, then the objects inside."""
    yield from (
        f"## {path}",
        "",
        _text(schema),
        "",
        "| Field | Type | Default | Meaning |",
        "| --- | --- | --- | --- |",
    )
    required = schema.get("required", [])
    inner: list[tuple[str, Mapping[str, Any]]] = []
    for name, field in schema["properties"].items():
        default = "required" if name in required else _default(field)
        yield f"| `{name}` | {_type(field)} | {default} | {_text(field)} |"
        found = field.get("items", field)
        if found.get("properties"):
            inner.append((f"{path}.{name}" + ("[]" if "items" in field else ""), found))
    yield ""
    if schema.get("x-kubernetes-validations"):
        yield from ("Rules:", "", *_rules(schema), "")
    for inner_path, found in inner:
        yield from _object(inner_path, found)


def _rules(schema: Mapping[str, Any]) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", []):
        yield f"- {' '.join(rule['message'].split())}"


def _type(field: Mapping[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or text"
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    kind = str(field["type"])
    return {"string": "text", "boolean": "true or false"}.get(kind, kind) + _bounds(field)


def _bounds(field: Mapping[str, Any]) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if low is None:
        return ""
    return f" from {low}" if high is None else f" from {low} to {high}"


def _default(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    if default is None or default == {}:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _text(field: Mapping[str, Any]) -> str:
    return " ".join(str(field.get("description", "")).split()).replace("|", "\\|")


def main() -> int:
    """Write, or compare and print the cure; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is out of date")
    wanted = page(yaml.safe_load(CRD.read_text()))
    if not parser.parse_args().check:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(wanted)
        return 0
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is out of date: run hack/reference/crd.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
