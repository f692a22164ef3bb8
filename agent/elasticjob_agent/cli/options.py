"""The table of `elasticjob-agent`'s options, and the parser that is built from it.

Names, spellings and environment variables (PET_<NAME>) are torchrun's; a test compares the table with torchrun's own.
`help` describes the meaning here. `ignored_options.py` warns about meanings in torchrun that have no effect here.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from elasticjob_agent.errors import UsageError
from elasticjob_api.constants import WarmStart

EXAMPLES = """examples:
  elasticjob-agent --standalone --nproc-per-node 4 train.py --epochs 10
  elasticjob-agent --nnodes 2:4 --nproc-per-node 2 --rdzv-backend etcd --rdzv-endpoint etcd:2379 --rdzv-id job1 train.py
  elasticjob-agent --nnodes 2 --rdzv-backend c10d --rdzv-endpoint node0:29400 --rdzv-id job2 --no-python ./train.sh
"""

NUMA_MODES = ("core-complex", "exclusive", "node", "socket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option; with `flag` it is a switch that is off by default."""

    name: str
    group: str
    help: str
    default: str | None = None
    short: str = ""
    flag: bool = False
    choices: tuple[str, ...] = ()
    from_environment: bool = True

    @property
    def dest(self) -> str:
        """The option's name in the namespace."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable that gives its default."""
        return f"PET_{self.dest.upper()}"

    @property
    def flags(self) -> list[str]:
        """The spellings that torchrun accepts: the letter, with dashes, with underscores."""
        long = [f"--{self.name}"] if self.dest == self.name else [f"--{self.name}", f"--{self.dest}"]
        return [f"-{self.short}", *long] if self.short else long


RENDEZVOUS = "rendezvous"
WORKERS = "workers"
KEEP = "steps kept in memory"
OUTPUT = "output of the workers"

OPTIONS: tuple[Option, ...] = (
    Option(name="nnodes", group=RENDEZVOUS, default="1:1", help="nodes wanted, MIN or MIN:MAX"),
    Option(
        name="rdzv-backend",
        group=RENDEZVOUS,
        default="static",
        help="etcd: an existing etcd; c10d: the endpoint's host starts one; static: node rank 0 starts one",
    ),
    Option(
        name="rdzv-endpoint",
        group=RENDEZVOUS,
        default="",
        help="HOST:PORT; for etcd several, separated by commas",
    ),
    Option(name="rdzv-id", group=RENDEZVOUS, default="none", help="name of the job, the same on all its nodes"),
    Option(
        name="rdzv-conf",
        group=RENDEZVOUS,
        default="",
        help="KEY=VALUE,…: join_timeout, last_call_timeout, keep_alive; cacert, cert, key (TLS); is_host, etcd_port",
    ),
    Option(name="standalone", group=RENDEZVOUS, flag=True, help="one machine, with an etcd of its own"),
    Option(
        name="node-rank",
        group=RENDEZVOUS,
        help="this node's slot, which decides its ranks; unset: the lowest free slot, for static slot 0",
    ),
    Option(name="master-addr", group=RENDEZVOUS, default="127.0.0.1", help="static: MASTER_ADDR"),
    Option(name="master-port", group=RENDEZVOUS, help="static: MASTER_PORT [29500]"),
    Option(name="local-addr", group=RENDEZVOUS, help="address at which other nodes reach this one; unset: detected"),
    Option(name="role", group=WORKERS, default="default", help="role of this node's workers"),
    Option(name="nproc-per-node", group=WORKERS, default="1", help="workers here: a number, auto, gpu, cpu or xpu"),
    Option(name="max-restarts", group=WORKERS, default="0", help="failures of all nodes that restart the workers"),
    Option(name="monitor-interval", group=WORKERS, default="0.1", help="accepted without effect: nothing here polls"),
    Option(
        name="start-method",
        group=WORKERS,
        default="spawn",
        choices=("spawn", "fork", "forkserver"),
        help="accepted without effect: commands are always exec'ed",
    ),
    Option(
        name="event-log-handler",
        group=WORKERS,
        default="null",
        help="other values have no effect: torch's elastic events are not written",
    ),
    Option(name="module", group=WORKERS, short="m", flag=True, help="the script is a module, as in python -m"),
    Option(name="no-python", group=WORKERS, flag=True, help="the script is any command"),
    Option(name="run-path", group=WORKERS, flag=True, help="the script is run by runpy.run_path; an absolute path"),
    Option(
        name="shutdown-timeout",
        group=WORKERS,
        help="seconds that workers get to stop for a planned change [$TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else 30]",
    ),
    Option(
        name="signals-to-handle",
        group=WORKERS,
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        help="signals on which this node leaves the job in order",
    ),
    Option(
        name="numa-binding",
        group=WORKERS,
        choices=NUMA_MODES,
        help="bind workers to the CPUs near their GPU, or spread them over the NUMA nodes; in a pod by the variable",
    ),
    Option(
        name="virtual-local-rank",
        group=WORKERS,
        flag=True,
        help="LOCAL_RANK is 0 for all, and each sees its own GPU only",
    ),
    Option(
        name="warm-start",
        group=WORKERS,
        choices=tuple(each.value for each in WarmStart),  # argparse shows members of an enum as code
        from_environment=False,
        help="restarted workers skip the imports of their script where that is safe [$ELASTICJOB_WARM_START, else Off]",
    ),
    Option(
        name="keep-dir",
        group=KEEP,
        from_environment=False,
        help="directory in memory, such as /dev/shm, for the steps that scripts publish; unset: none is kept",
    ),
    Option(
        name="keep-size",
        group=KEEP,
        from_environment=False,
        help="memory for kept steps on this node, such as 8Gi; unset: as much as the directory has",
    ),
    Option(name="keep-copies", group=KEEP, from_environment=False, help="other nodes that get each part [1]"),
    Option(
        name="keep-bandwidth",
        group=KEEP,
        from_environment=False,
        help="bytes a second for copies while workers run, 0 for no limit [256Mi, with TLS 128Mi]",
    ),
    Option(
        name="keep-restore-timeout",
        group=KEEP,
        from_environment=False,
        help="seconds to fetch a step after a loss; then an older one is restored [120]",
    ),
    Option(
        name="keep-persist-to",
        group=KEEP,
        from_environment=False,
        help="directory on a disk that all nodes share, to which committed steps are written; unset: none is",
    ),
    Option(
        name="keep-persist-every",
        group=KEEP,
        from_environment=False,
        help="seconds between two steps that are written there [600]",
    ),
    Option(
        name="keep-persist-keep",
        group=KEEP,
        from_environment=False,
        help="newest whole steps that stay there [2]",
    ),
    Option(
        name="keep-no-resume",
        group=KEEP,
        flag=True,
        from_environment=False,
        help="a new run begins from no step that an earlier one has written there",
    ),
    Option(name="log-dir", group=OUTPUT, help="folder for the logs of rounds and ranks; unset: they are not kept"),
    Option(
        name="redirects",
        group=OUTPUT,
        short="r",
        default="0",
        help="streams that go to files only: 1 stdout, 2 stderr, 3 both; by local rank: 0:3,1:1",
    ),
    Option(name="tee", group=OUTPUT, short="t", default="0", help="streams that go to files and the console, like -r"),
    Option(name="local-ranks-filter", group=OUTPUT, default="", help="show only these local ranks on the console: 0,2"),
    Option(
        name="duplicate-stdout-filters",
        group=OUTPUT,
        default="",
        help="lines of stdout with one of these words also go to filtered_stdout.log; a doubled comma is a comma",
    ),
    Option(name="duplicate-stderr-filters", group=OUTPUT, default="", help="the same for stderr"),
    Option(
        name="logs-specs",
        group=OUTPUT,
        from_environment=False,
        help="not supported: such classes need torch in the agent",
    ),
)


def build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser; defaults come from PET_<NAME> in `environment`. `values` checks the values later."""
    parser = argparse.ArgumentParser(
        prog="elasticjob-agent",
        description="Run workers on this node as part of an elastic job; a drop-in for torchrun.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--pod", action="store_true", help="read all settings from the environment (ELASTICJOB_*)")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    groups = {name: parser.add_argument_group(name) for name in (RENDEZVOUS, WORKERS, KEEP, OUTPUT)}
    for option in OPTIONS:
        _add(groups[option.group], option, environment)
    parser.add_argument("script", nargs="?", help="the script, run with this Python (see -m, --no-python)")
    parser.add_argument("script_args", nargs=argparse.REMAINDER, help="its arguments, verbatim")
    return parser


def _add(group: "argparse._ArgumentGroup", option: Option, environment: Mapping[str, str]) -> None:
    given = environment.get(option.variable) if option.from_environment else None
    if option.flag:
        group.add_argument(*option.flags, action="store_true", default=_switch(option, given), help=option.help)
        return
    group.add_argument(
        *option.flags,
        default=option.default if given is None else given,
        choices=option.choices or None,
        metavar=None if option.choices else option.dest.upper(),
        help=f"{option.help} [{option.default}]" if option.default else option.help,
    )


def _switch(option: Option, given: str | None) -> bool:
    try:
        return bool(int(given or "0"))
    except ValueError:
        raise UsageError(f"{option.variable}={given}: it must be 0 or 1") from None
