"""`elasticjob doctor`: every check in order, a line each, and the cure below what is wrong."""

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.command import CommandPage
from elasticjob_cli.commands.version import version
from elasticjob_cli.connection import add_cluster_options, connect
from elasticjob_cli.doctor.finding import Check, CheckContext, Finding, Severity, fail
from elasticjob_cli.output import as_json, as_yaml
from elasticjob_cli.terminal import Style, has_colour, is_terminal, paint, printable, width
from elasticjob_cli.views.text import wrap_lines

_STYLES = {Severity.OK: Style.GOOD, Severity.WARN: Style.WARN, Severity.FAIL: Style.BAD, Severity.SKIP: Style.DIM}
_MARGIN, _MAX_LINES = 24, 10
"""Columns before the words, and lines of them."""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("json", "yaml"), help="the findings, for programs")
    parser.add_argument("--machine", action="store_true", help="only this machine; no cluster is asked")
    add_cluster_options(parser)


def _run(arguments: argparse.Namespace) -> int:
    found = []
    for finding in _findings(arguments):
        found.append(finding)
        if not arguments.output:
            show(finding, columns=width() if is_terminal() else None)
    if arguments.output:
        plain = [{**dataclasses.asdict(each), "grade": each.grade.value} for each in found]
        print((as_json if arguments.output == "json" else as_yaml)(plain), end="")
    return ExitCode.FAILED if any(each.grade is Severity.FAIL for each in found) else ExitCode.OK


def _findings(arguments: argparse.Namespace) -> Iterator[Finding]:
    from elasticjob_cli.doctor.machine import check_machine  # noqa: PLC0415  # the help need not wait for it

    yield from check_machine()
    if not arguments.machine:
        yield from _of_cluster(arguments)


def _of_cluster(arguments: argparse.Namespace) -> Iterator[Finding]:
    from elasticjob.errors import ClusterError, MissingExtra, NoCluster, Unreachable  # noqa: PLC0415  # see `connection`
    from elasticjob_cli.doctor import cluster, installation, jobs  # noqa: PLC0415  # the same

    try:
        context = CheckContext(cluster=connect(arguments), version=version(), now_s=time.time)
    except MissingExtra:
        yield fail("cluster", "none can be asked from here", "pip install 'elasticjob[cli]'; --machine leaves it out")
        return
    except NoCluster as error:
        yield fail("kubeconfig", str(error), "name one with --kubeconfig, and a context with --context")
        return
    checks: tuple[Check, ...] = (
        cluster.check_server,
        cluster.check_crd,
        cluster.check_rights,
        cluster.check_creation,
        cluster.check_node_clocks,
        installation.check_operator,
        installation.check_etcd,
        jobs.check_jobs,
    )
    for check in checks:
        try:
            yield from check(context)
        except Unreachable as error:
            yield fail("API server", str(error), _cure_of_silence(str(error)))
            return
        except ClusterError as error:
            yield fail(check.__name__.removeprefix("check_").replace("_", " "), str(error), "see the server's words")


def _cure_of_silence(words: str) -> str:
    """A certificate out of its time is mostly one that is looked at with a wrong clock."""
    if "certificate is not yet valid" in words or "certificate has expired" in words:
        return "see that the clock of this machine is right (NTP); else have the API server's certificate renewed"
    return "see that the cluster is up, and that kubectl reaches it"


def show(finding: Finding, *, columns: int | None) -> None:
    """Print it on a terminal so wide; None: into a pipe, where each finding is one line."""
    columns = columns or sys.maxsize
    grade = paint(f"{finding.grade:<4}", _STYLES[finding.grade], colour=has_colour())
    first, *rest = wrap_lines(printable(finding.message), columns - _MARGIN, most=_MAX_LINES)
    print(f"{grade}  {finding.what:<{_MARGIN - 6}}{first}", flush=True)
    if finding.cure:
        first, *more = wrap_lines(printable(finding.cure), columns - _MARGIN - 3, most=_MAX_LINES)
        rest += [f"-> {first}", *(f"   {line}" for line in more)]
    for line in rest:
        print(f"{'':<{_MARGIN}}{line}", flush=True)


PAGES = {
    "doctor": CommandPage(
        description=(
            "Check that jobs can run: this machine, kubeconfig, API server, CRD, your rights, a trial job (dry run,\n"
            "nothing is created), clocks, operator and its rights, etcd, versions, jobs, images.\n"
            "Each fault has its cure on the line below; checks that you have no right to are skipped."
        ),
        examples=(
            ("doctor", ""),
            ("doctor -n team --context prod", "your rights are those in this namespace"),
            ("doctor -o json", "for programs"),
        ),
        configure=_configure,
        run=_run,
    )
}
