"""What ends a command of `elasticjob` before or beside its job's own end, as one tree; each is one clear sentence.

    CliError                 exit code `code`, printed without a traceback
    ├── InvalidManifest      the manifest cannot be read, is no valid ElasticJob, or asks for what no machine alone has
    ├── InvalidFault         an `--inject` that cannot be understood, or that can never strike this job
    ├── RunFolderError       the run folder cannot be made or written
    ├── EtcdNotStarted       the embedded etcd is missing, did not start or did not answer
    ├── MissingExtra         a library of the extra `[local]` is not installed
    └── PageNotShown         the web page of `--ui` has no port

The message has what was tried, on what, what happened, and what cures it.
"""

from elasticjob_api.exit_codes import ExitCode


class CliError(Exception):
    """A sentence for the user, and the exit code that goes with it."""

    code: ExitCode = ExitCode.FAILED


class InvalidManifest(CliError):
    """The manifest is at fault; nothing was started. One line for each fault."""

    code = ExitCode.USAGE


class InvalidFault(CliError):
    """An `--inject` is at fault; nothing was started."""

    code = ExitCode.USAGE


class RunFolderError(CliError):
    """The run folder is at fault; nothing was started."""

    code = ExitCode.USAGE


class EtcdNotStarted(CliError):
    """No etcd, no job; everything that had been started was stopped."""

    code = ExitCode.UNAVAILABLE


class MissingExtra(CliError):
    """The installation is not complete; the message names the pip command."""

    code = ExitCode.USAGE


class PageNotShown(CliError):
    """The web page of `--ui` could not be shown: as a rule somebody has its port."""
