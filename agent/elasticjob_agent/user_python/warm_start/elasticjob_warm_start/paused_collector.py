"""Keep the garbage collector from looking at all objects of the imports again and again.

It looks at each new object once, which is cheap. Garbage in the older generations has to wait for the end of the
imports, and there is little of it.

An import may read the thresholds of the collector, and set them. It reads those of a collector that runs. Those that it
sets take effect at once, and stay.
"""

import gc

_NEVER = (1 << 31) - 1


class PausedCollector:
    """The collector of this interpreter, paused for all but the youngest objects until `end`."""

    def __init__(self) -> None:
        self._read = gc.get_threshold
        first, self._usual, third = gc.get_threshold()
        self._replacement = self._read_thresholds  # one object: each access to a method makes another
        gc.get_threshold = self._replacement
        # Not gc.disable(): an import may call that itself, or ask whether the collector is enabled.
        gc.set_threshold(first, _NEVER, third)

    def _read_thresholds(self) -> "tuple[int, int, int]":
        """Return the thresholds without ours: an import may have set the first of them only, or all."""
        first, second, third = self._read()
        return first, self._usual if second == _NEVER else second, third

    @property
    def replaced(self) -> "tuple[object, object]":
        """The function that modules may have got while the collector was paused, and the one that they should have."""
        return self._replacement, self._read

    def end(self) -> None:
        """Collect what the imports have left, and let the collector run again unless they have changed that."""
        gc.collect()
        if gc.get_threshold is self._replacement:
            gc.get_threshold = self._read
        gc.set_threshold(*self._read_thresholds())
