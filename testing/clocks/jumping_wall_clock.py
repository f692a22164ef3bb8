"""A wall clock that jumps by hours, both ways, under real processes; their monotonic clocks continue.

It is a short library that the machine's C compiler builds and the loader puts before the C library (`LD_PRELOAD`).
gRPC's core reads the clock as well as Python does, and both must see the same jump.
"""

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("stepped_clock.c")


class JumpingWallClock:
    """The wall clock of processes that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        self._step = folder / "step"
        self._library = folder / "stepped_clock.so"
        self._step.write_bytes(struct.pack("=q", 0))
        compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
        assert compiler, "the tests of clock jumps need a C compiler: apt-get install gcc"
        flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Werror")
        subprocess.run([compiler, *flags, "-o", self._library, _SOURCE], check=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that a process must be started with."""
        return {"LD_PRELOAD": str(self._library), "STEPPED_CLOCK": str(self._step)}

    def jump_to(self, hours: float) -> None:
        """Jump to this distance from the true time; negative is the past."""
        with self._step.open("r+b") as step:
            step.write(struct.pack("=q", round(hours * 3600)))
