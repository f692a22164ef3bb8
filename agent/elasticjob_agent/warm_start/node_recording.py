"""The imports of all workers of a node: the modules of the first one, and the changes that any of them has made.

Often only some ranks set a variable, for example all but rank 0. An import in those has seen it.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from elasticjob_agent.warm_start.greeting import Greeting
from elasticjob_agent.warm_start.merging import ModuleOrder, merge_contexts
from elasticjob_agent.warm_start.recording import Recording


class NodeRecording:
    """Reads the recorders of all workers of a node."""

    def __init__(self, count: int) -> None:
        """Raise OSError if no descriptor is left."""
        self._each: list[Recording] = []
        self._news = asyncio.Event()
        self.news_count = 0
        """Number of modules, variables and contexts so far."""
        try:
            for place in range(count):
                self._each.append(Recording(is_first=place == 0, on_news=self._note_news))
        except OSError:
            self.close()
            raise

    @property
    def write_fds(self) -> list[int]:
        """Return the workers' ends of the pipes until the workers were started."""
        return [recording.write_fd for recording in self._each]

    @property
    def greeting(self) -> Greeting | None:
        """Return the greeting of the first worker."""
        return self._each[0].greeting

    @property
    def has_ended(self) -> bool:
        """Whether the first worker has ended."""
        return self._each[0].has_ended

    @property
    def modules(self) -> Mapping[str, str]:
        """Return the modules of the first worker."""
        return self._each[0].modules

    @property
    def begun(self) -> Collection[str]:
        """Return the modules whose import has begun in the first worker."""
        return self._each[0].begun

    @property
    def module_count(self) -> int:
        """Return the number of these modules."""
        return self._each[0].module_count

    @property
    def folders(self) -> Sequence[str]:
        """Return the entries that sys.path has got in any worker."""
        return list({folder: None for recording in self._each for folder in recording.folders})

    @property
    def variables(self) -> dict[str, tuple[str, str]]:
        """Return the variables that any worker has changed, each with a module of the first one, and its value.

        No worker has begun one of the first one's modules up to this one after it has changed the variable. The value
        is empty if not all that have changed it have the same.
        """
        order = ModuleOrder(self._each[0].begun)
        places: dict[str, str] = {}
        values: dict[str, set[str]] = {}
        for recording in self._each:
            begun, is_cut_off = ModuleOrder(recording.begun), recording.has_ended and not recording.is_quiet
            for variable, (module, value) in recording.variables.items():
                place = order.common(begun, module, is_cut_off=is_cut_off)
                places[variable] = order.earlier(place, places.get(variable, place))
                values.setdefault(variable, set()).add(value)
        return {
            variable: (place, next(iter(values[variable])) if len(values[variable]) == 1 else "")
            for variable, place in places.items()
        }

    @property
    def known_variables(self) -> set[str]:
        """Return the variables that any worker has changed at any time, also if no import has seen the change."""
        return {name for recording in self._each for name in (*recording.known_variables, *recording.variables)}

    @property
    def contexts(self) -> dict[str, str]:
        """Return the contexts of imports in any worker; of several for one module, that which excludes most."""
        return merge_contexts(*(recording.contexts for recording in self._each))

    def _note_news(self) -> None:
        self.news_count += 1
        self._news.set()

    def workers_started(self) -> None:
        """Close our copies of the workers' ends. May be called again."""
        for recording in self._each:
            recording.worker_started()

    def close(self) -> None:
        """Stop reading. May be called again."""
        for recording in self._each:
            recording.close()

    async def wait_complete(self, *, greeting_s: float, quiet_s: float) -> None:
        """Return when each worker had no new import for `quiet_s`, no greeting within `greeting_s`, or has ended."""
        await asyncio.gather(*(each.wait_complete(greeting_s=greeting_s, quiet_s=quiet_s) for each in self._each))

    async def wait_news(self) -> bool:
        """Return True once a worker has more modules, variables or contexts; False once the first one has ended."""
        await self._news.wait()
        self._news.clear()
        return not self.has_ended
