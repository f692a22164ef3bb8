"""The error for a wrong command line or manifest, which modules of every layer raise."""


class UsageError(Exception):
    """The command line is wrong; the message names the option, the cause and the cure."""
