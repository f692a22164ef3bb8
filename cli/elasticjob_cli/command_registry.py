"""The registry of commands: name, module and the line in `elasticjob --help`."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_cli.command import CommandPage


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of one command."""

    name: str
    module: str
    help: str

    def page(self) -> CommandPage:
        """Import the module of the command and return its page."""
        pages: Mapping[str, CommandPage] = importlib.import_module(f"elasticjob_cli.commands.{self.module}").PAGES
        return pages[self.name]


GROUPS: Mapping[str, tuple[Entry, ...]] = {
    "on this machine": (Entry("run", "run", "run a manifest on this machine, with processes as pods"),),
    "inspect": (
        Entry("get", "get", "list jobs, or show one: phase, nodes, restarts, reason"),
        Entry("watch", "watch", "show a live view: nodes, ranks, cpu, memory, progress, last failure"),
        Entry("describe", "describe", "describe in sentences what happened to a job and why"),
        Entry("logs", "logs", "print the output of workers: by rank, by round, or of the worker that failed"),
        Entry("keep", "keep", "show which step is safe in memory, and what each node holds"),
        Entry("timeline", "timeline", "show workers of each round, failures and gaps: as text, picture or data"),
    ),
    "change": (
        Entry("scale", "mutate", "change the number of nodes of a running job"),
        Entry("suspend", "mutate", "stop a job and delete its pods; counters and history remain"),
        Entry("resume", "mutate", "continue a suspended job"),
        Entry("restart", "mutate", "restart all workers once, gracefully; not counted toward maxRestarts"),
    ),
    "set up": (
        Entry("doctor", "doctor", "check cluster, CRD, permissions, operator, etcd, clocks, versions, images"),
        Entry("convert", "convert", "convert a PyTorchJob, a foreign ElasticJob or a torchrun command line"),
        Entry("crd", "crd", "print the CustomResourceDefinition"),
        Entry("completion", "completion", "print a completion script for bash, zsh or fish"),
        Entry("version", "version", "print the version"),
    ),
}
ENTRIES: Mapping[str, Entry] = {entry.name: entry for group in GROUPS.values() for entry in group}
