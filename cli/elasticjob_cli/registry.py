"""The commands by name: which module has each, and the line that `elasticjob --help` says of it."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_cli.command import CommandPage


@dataclass(frozen=True, slots=True)
class Entry:
    """One command."""

    name: str
    module: str
    help: str

    def page(self) -> CommandPage:
        """Import it."""
        pages: Mapping[str, CommandPage] = importlib.import_module(f"elasticjob_cli.commands.{self.module}").PAGES
        return pages[self.name]


GROUPS: Mapping[str, tuple[Entry, ...]] = {
    "on this machine": (Entry("run", "run", "run a manifest on this machine, with processes for pods"),),
    "look": (
        Entry("get", "get", "list jobs, or show one: phase, nodes, restarts, why it does not run"),
        Entry("watch", "watch", "live view of a job: nodes, ranks, cpu, memory, progress, last failure"),
        Entry("describe", "describe", "what happened to a job and why, in sentences"),
        Entry("logs", "logs", "what the workers wrote: by rank, of all, of earlier rounds, of the one that failed"),
        Entry("timeline", "timeline", "workers of each round, failures and gaps; text, SVG, PNG or HTML"),
    ),
    "change": (
        Entry("scale", "mutate", "change the number of nodes while the job runs"),
        Entry("suspend", "mutate", "give the pods back; counters and history stay"),
        Entry("resume", "mutate", "let a suspended job go on"),
        Entry("restart", "mutate", "restart all workers once, gracefully; nothing is charged"),
    ),
    "set up": (
        Entry("doctor", "doctor", "check cluster, CRD, rights, operator, etcd, clocks, versions, images"),
        Entry("convert", "convert", "a PyTorchJob, another system's ElasticJob or a torchrun line as an ElasticJob"),
        Entry("crd", "crd", "print the CustomResourceDefinition"),
        Entry("completion", "completion", "print a completion script for bash, zsh or fish"),
        Entry("version", "version", "print the version"),
    ),
}
ENTRIES: Mapping[str, Entry] = {entry.name: entry for group in GROUPS.values() for entry in group}
