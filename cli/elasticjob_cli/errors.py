"""The errors that end a command of `elasticjob`, as one tree.

    CliError                 exit code `code`, printed without a traceback
    ├── InvalidManifest      the manifest cannot be read, is not a valid ElasticJob, or needs a cluster
    ├── InvalidFault         an `--inject` that is malformed, or that can never affect this job
    ├── RunFolderError       the folder of the run cannot be created or written
    ├── EtcdNotStarted       the embedded etcd is missing, did not start or did not answer
    ├── MissingExtra         a library of an extra, `[local]` or `[cli]`, is not installed
    └── PageNotShown         the web page of `--ui` has no port

A message names what was tried, on what, what happened, and the cure.
"""

from elasticjob_api.exit_codes import ExitCode


class CliError(Exception):
    """A sentence for the user, and the exit code."""

    code: ExitCode = ExitCode.FAILED


class InvalidManifest(CliError):
    """The manifest is invalid; nothing was started. One line for each fault."""

    code = ExitCode.USAGE


class InvalidFault(CliError):
    """A fault of `--inject` is invalid; nothing was started."""

    code = ExitCode.USAGE


class RunFolderError(CliError):
    """The folder of the run, or that in memory, cannot be used; nothing was started."""

    code = ExitCode.USAGE


class EtcdNotStarted(CliError):
    """etcd did not start, so the job cannot; everything that had been started was stopped."""

    code = ExitCode.UNAVAILABLE


class MissingExtra(CliError):
    """A library is not installed; the message names the pip command."""

    code = ExitCode.USAGE


class PageNotShown(CliError):
    """The web page of `--ui` could not be served, usually because another process uses its port."""
