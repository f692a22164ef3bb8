"""Artifacts of a failed test, in e2e/artifacts/NAMESPACE: the objects and logs that explain a failure."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster import ETCD, OPERATORS, SYSTEM
from e2e.programs import ProgramFailed
from e2e.space import Space

FOLDER = Path(__file__).with_name("artifacts")


def keep(space: Space) -> Path:
    """Write the files; a failed query is recorded in its file."""
    folder = FOLDER / space.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, question in _questions(space):
        try:
            answer = space.cluster.kubectl(*question)
        except ProgramFailed as error:
            answer = f"{error}\n"
        (folder / file).write_text(answer)
    return folder


def _questions(space: Space) -> Iterator[tuple[str, tuple[str, ...]]]:
    here = ("-n", space.name)
    yield "ejob.yaml", (*here, "get", "ejob", "-o", "yaml")
    yield "ejob.describe", (*here, "describe", "ejob")
    yield "pods.txt", (*here, "get", "pods,services", "-o", "wide")
    yield "pods.yaml", (*here, "get", "pods", "-o", "yaml")
    yield "events.txt", (*here, "get", "events", "--sort-by=.metadata.creationTimestamp")
    yield "nodes.txt", ("describe", "nodes")
    yield "system.txt", ("-n", SYSTEM, "get", "all", "-o", "wide")
    yield "operator.log", ("-n", SYSTEM, "logs", *OPERATORS, "--timestamps", "--tail=-1")
    yield "etcd.log", ("-n", SYSTEM, "logs", ETCD, "--timestamps", "--tail=500")
    for pod in space.objects("pods"):
        yield f"{pod.removeprefix('pod/')}.log", (*here, "logs", pod, "--timestamps")
