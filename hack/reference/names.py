#!/usr/bin/env python3
"""names-reference [--check] — write docs/reference/exit-codes.md and names.md from the contract; with --check compare.

Every sentence is the comment beside the name in api/elasticjob_api, so there is one place to maintain.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from elasticjob_api import constants
from elasticjob_api.rendezvous_state import Cause

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "api" / "elasticjob_api"
FOLDER = ROOT / "docs" / "reference"
WRITTEN = "<!-- Written by hack/reference/names.py from api/elasticjob_api: change that instead, and run it again. -->"
_CODE = re.compile(r"^    ([A-Z_]+) = (\d+)  # (.+)$", re.MULTILINE)
_VARIABLE = re.compile(r'^ENV_\w+ = "(\w+)"(?:  # (.+))?$(?:\n"""([^"]+)""")?', re.MULTILINE)
_OF_WORKER = {
    constants.ENV_ROUND,
    constants.ENV_PROGRESS,
    constants.ENV_KEEP,
    constants.ENV_KEPT,
    constants.ENV_KEPT_STEP,
}
_DOWNWARD = {
    "ELASTICJOB_POD_UID": "its uid, likewise",
    "ELASTICJOB_POD_IP": "its address, likewise",
    "ELASTICJOB_NODE_NAME": "its node's name, likewise",
    "ELASTICJOB_NPROC_PER_NODE": "workers on this node, or `auto`",
}
_OTHERS = {
    "LABEL_JOB_NAME": "label of a pod: its job's name",
    "LABEL_JOB_UID": "label of a pod: its job's uid",
    "LABEL_SLOT": "label of a pod: its slot, decimal",
    "LABEL_TEMPLATE_HASH": "label of a pod: a hash of the template that it was made from",
    "ANNOTATION_INSTALLATION": "annotation of a pod: the installation of the operator that made it",
    "ANNOTATION_AGENT_IMAGE": "annotation of a pod: the image that its agent comes from, as the operator set it",
    "ANNOTATION_RESTART": "annotation of a job: a new value restarts the workers once",
}


def exit_codes() -> str:
    """Return the page of exit codes."""
    text = (API / "exit_codes.py").read_text()
    rows = [f"| {code} | `{name}` | {meaning} |" for name, code, meaning in _CODE.findall(text)]
    head = [
        "# Exit codes",
        "",
        WRITTEN,
        "",
        "The exit codes of `elasticjob`, `elasticjob-agent` and the trainer container. A failed agent exits with the",
        "root cause's own code when that worker was its own (128 + number for a signal): other numbers are workers'.",
        "",
        "| Code | Name | Meaning |",
        "| ---: | --- | --- |",
    ]
    return "\n".join([*head, *rows]) + "\n"


def names_page() -> str:
    """Return the page of the environment, labels, and the words of conditions, reasons and causes."""
    return "\n".join(["# Environment and names", "", WRITTEN, "", *_environment(), *_labels(), *_words()]) + "\n"


def _environment() -> Iterator[str]:
    meanings = [
        (name, beside or " ".join(below.split()) or _DOWNWARD[name])
        for name, beside, below in _VARIABLE.findall((API / "constants.py").read_text())
    ]
    for title, of_worker in (("of the agent", False), ("of a worker, beside torchrun's own", True)):
        yield from (f"## Environment {title}", "", "| Variable | Meaning |", "| --- | --- |")
        yield from (f"| `{name}` | {meaning} |" for name, meaning in meanings if (name in _OF_WORKER) is of_worker)
        yield ""


def _labels() -> Iterator[str]:
    yield from ("## Labels and annotations", "", "| Name | Meaning |", "| --- | --- |")
    yield from (f"| `{getattr(constants, name)}` | {meaning} |" for name, meaning in _OTHERS.items())
    yield ""


def _words() -> Iterator[str]:
    yield from ("## Words", "", "| Where | Words |", "| --- | --- |")
    words: dict[str, type[StrEnum]] = {
        "`status.phase`": constants.Phase,
        "types of `status.conditions`": constants.ConditionType,
        "reasons of the condition `Failed`": constants.FailedReason,
        "reasons of events": constants.EventReason,
    }
    for where, kind in words.items():
        yield f"| {where} | {', '.join(f'`{word.value}`' for word in kind)} |"
    yield f"| why a round was opened | {', '.join(f'`{cause.value}`' for cause in Cause)} |"


PAGES = {"exit-codes.md": exit_codes, "names.md": names_page}


def main() -> int:
    """Write, or compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    old = [
        name for name, page in PAGES.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != page()
    ]
    for name in old:
        if check:
            print(f"docs/reference/{name} is out of date: run make reference", file=sys.stderr)
        else:
            (FOLDER / name).write_text(PAGES[name]())
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main())
