"""Binding workers to processors by NUMA node: what is asked for, and that it cannot be done here yet."""

import warnings
from typing import Any


def check(numa_options: Any) -> None:
    """Refuse options that cannot be followed: NotImplementedError, or one warning if the options allow to go on.

    Args:
        numa_options: None, or an object with `affinity_mode` and `should_fall_back_if_binding_fails`.
    """
    if numa_options is None:
        return
    mode = getattr(numa_options.affinity_mode, "value", numa_options.affinity_mode)
    message = f"workers cannot be bound to processors (affinity mode {mode!r}): binding is not available here"
    if not numa_options.should_fall_back_if_binding_fails:
        raise NotImplementedError(f"{message}; leave out numa_options, or let it fall back")
    warnings.warn(f"{message}; they run unbound", stacklevel=3)
