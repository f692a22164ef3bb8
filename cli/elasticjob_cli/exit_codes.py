"""The exit codes of every command, once: for `--help`, for the docs, for the tests. The numbers are the contract's."""

from elasticjob_api.exit_codes import ExitCode
from elasticjob_cli.help_format import entry

CLOSED_OUTPUT = 141
"""As a shell shows the death by SIGPIPE."""

EXIT_CODES: tuple[tuple[str, str], ...] = (
    (f"{ExitCode.OK:d}", "done; of run, logs -f, watch: the job succeeded"),
    (f"{ExitCode.FAILED:d}", "the job failed, there is no such job, the cluster refused, or doctor found a fault"),
    (f"{ExitCode.USAGE:d}", "the command line or a manifest is wrong; nothing was done"),
    (f"{ExitCode.UNAVAILABLE:d}", "no API server, or no etcd: none named, it did not answer, or it ended"),
    (f"{ExitCode.INTERNAL:d}", "a fault of elasticjob itself; a traceback was printed"),
    (f"{ExitCode.NOT_EXECUTABLE:d}", "of run: the workers' command cannot be executed"),
    (f"{ExitCode.NOT_FOUND:d}", "of run: the workers' command was not found"),
    (f"{ExitCode.INTERRUPTED:d}", "stopped by Ctrl-C"),
    (f"{CLOSED_OUTPUT}", "the reader of the output has gone"),
    (f"{ExitCode.LEFT:d}", "stopped by SIGTERM or SIGHUP"),
)
"""Code, and what it says."""


def exit_code_lines() -> str:
    """The table as `--help` shows it."""
    return "\n".join(entry(f"  {code:<4}", meaning) for code, meaning in EXIT_CODES)
