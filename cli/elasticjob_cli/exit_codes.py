"""The exit codes of all commands, for `--help`, the documents and the tests; `elasticjob_api` has the numbers."""

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.help_format import entry

CLOSED_OUTPUT = 141
"""128 + SIGPIPE: the exit code that a shell shows after SIGPIPE."""

EXIT_CODES: tuple[tuple[str, str], ...] = (
    (f"{ExitCode.OK:d}", "success; of run, logs -f, watch: the job succeeded"),
    (
        f"{ExitCode.FAILED:d}",
        "the job failed or does not exist, the cluster refused the request, or doctor found a fault",
    ),
    (f"{ExitCode.USAGE:d}", "the command line or a manifest is wrong; nothing was done"),
    (f"{ExitCode.UNAVAILABLE:d}", "no API server or no etcd: it is not configured, did not answer, or ended"),
    (f"{ExitCode.INTERNAL:d}", "a bug in elasticjob; a traceback was printed"),
    (f"{ExitCode.NOT_EXECUTABLE:d}", "of run: the workers' command cannot be executed"),
    (f"{ExitCode.NOT_FOUND:d}", "of run: the workers' command was not found"),
    (f"{ExitCode.INTERRUPTED:d}", "stopped by Ctrl-C"),
    (f"{CLOSED_OUTPUT}", "the reader of the output closed it"),
    (f"{ExitCode.LEFT:d}", "stopped by SIGTERM or SIGHUP"),
)
"""Exit code and its meaning."""


def exit_code_lines() -> str:
    """Return the lines of the table for `--help`."""
    return "\n".join(entry(f"  {code:<4}", meaning) for code, meaning in EXIT_CODES)
