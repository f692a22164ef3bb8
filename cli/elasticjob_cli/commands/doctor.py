"""`elasticjob doctor`: run each check, print a line for each finding, and the cure below a fault."""

import argparse
import dataclasses
import ssl
import sys
import time
from collections.abc import Iterator

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.cluster_options import add_cluster_options, connect
from elasticjob_cli.command import CommandPage
from elasticjob_cli.commands.version import version
from elasticjob_cli.doctor.finding import Check, CheckContext, Finding, Severity, fail
from elasticjob_cli.terminal import Style, has_colour, is_terminal, paint, printable, width
from elasticjob_cli.views.text import wrap_lines
from elasticjob_cli.yaml_json import as_json, as_yaml

_STYLES = {Severity.OK: Style.GOOD, Severity.WARN: Style.WARN, Severity.FAIL: Style.BAD, Severity.SKIP: Style.DIM}
_MARGIN, _MAX_LINES = 24, 10
"""Columns left of the message, and the most lines of a message."""
_OUT_OF_DATE = {9, 10}
"""OpenSSL's codes of a certificate that is not valid yet, or not any more."""
_NO_LIBRARIES = "not checked: the libraries for a cluster are not installed"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("json", "yaml"), help="print the findings as data, for programs")
    parser.add_argument("--machine", action="store_true", help="check only this machine, without a cluster")
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
    from elasticjob_cli.doctor.machine_checks import check_machine  # noqa: PLC0415  # --help does not need it

    yield from check_machine()
    if not arguments.machine:
        yield from _of_cluster(arguments)


def _of_cluster(arguments: argparse.Namespace) -> Iterator[Finding]:
    from elasticjob.errors import ClusterError, MissingExtra, NoCluster, Unreachable  # noqa: PLC0415  # see `cluster_options`
    from elasticjob_cli.doctor import cluster_checks, installation_checks, job_checks  # noqa: PLC0415  # the same

    try:
        context = CheckContext(cluster=connect(arguments), version=version(), now_s=time.time)
    except MissingExtra:
        yield fail("cluster", _NO_LIBRARIES, "pip install 'elasticjob[cli]', or use --machine to skip the cluster")
        return
    except NoCluster as error:
        yield fail("kubeconfig", str(error), "select a file with --kubeconfig, and a context with --context")
        return
    checks: tuple[Check, ...] = (
        cluster_checks.check_server,
        cluster_checks.check_crd,
        cluster_checks.check_rights,
        cluster_checks.check_creation,
        cluster_checks.check_node_clocks,
        installation_checks.check_operator,
        installation_checks.check_etcd,
        job_checks.check_jobs,
    )
    for check in checks:
        try:
            yield from check(context)
        except Unreachable as error:
            yield fail("API server", str(error), _cure_of_unreachable(error))
            return
        except ClusterError as error:
            yield fail(
                check.__name__.removeprefix("check_").replace("_", " "),
                str(error),
                "see the answer of the API server above",
            )


def _cure_of_unreachable(error: BaseException) -> str:
    """Return the cure for an API server that does not answer."""
    # A certificate that seems out of date is mostly the sign of a wrong clock.
    codes = {each.verify_code for each in _causes(error) if isinstance(each, ssl.SSLCertVerificationError)}
    if codes & _OUT_OF_DATE:
        return "check the clock of this machine (NTP); if it is right, renew the certificate of the API server"
    return "check that the cluster runs and that kubectl reaches it"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and the errors that led to it."""
    yield error
    for each in (error.__cause__, error.__context__):
        if each is not None:
            yield from _causes(each)


def show(finding: Finding, *, columns: int | None) -> None:
    """Print a finding, wrapped at `columns`; None, for a pipe, prints message and cure on a line each."""
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
            "Check that jobs can run. First: this machine, kubeconfig, API server, CRD, your permissions, and a\n"
            "trial job (a dry run that creates nothing). Then: clocks, the operator and its permissions, etcd,\n"
            "versions, jobs, images. The cure of a fault is on the line below it. A check is skipped if you lack a\n"
            "permission that it needs."
        ),
        examples=(
            ("doctor", ""),
            ("doctor -n team --context prod", "check your permissions in this namespace"),
            ("doctor -o json", "for programs"),
        ),
        configure=_configure,
        run=_run,
    )
}
