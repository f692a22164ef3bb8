"""Times and counts of the warm start."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long each step may take; the defaults are for production."""

    greeting_s: float = 60.0
    """For Python to report itself. A start from a cold network disk takes many seconds."""
    quiet_s: float = 3.0
    """Without a new import after which a worker's imports count as complete."""
    preload_s: float = 600.0
    """For all imports of a zygote. Imports from a cold network disk take minutes."""
    exit_s: float = 5.0
    """For the exit functions of the imports."""
    fork_s: float = 30.0
    """For one fork. It also compares the files of all imported modules with those on the disk."""
    round_s: float = 0.05
    """That a round waits for workers that are just being forked."""
    head_start_s: float = 0.05
    """That the other ranks of a node wait until rank 0 has opened its port."""
    more_modules: int = 50
    """Imported after the zygote was begun, for which it is built again."""
    max_builds: int = 8
    """Zygotes in a row without a warm start, so that imports that fail again and again cost little."""
