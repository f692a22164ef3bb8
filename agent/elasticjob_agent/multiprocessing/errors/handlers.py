"""The factory of error handlers, a function of its own so that it can be replaced."""

from elasticjob_agent.multiprocessing.errors.error_handler import ErrorHandler


def get_error_handler() -> ErrorHandler:
    """Return a new handler; the default of `record`."""
    return ErrorHandler()
