"""`members` that report their processor time: a process of them for the profile of `make bench`.

begin         from here on
end           {"layers": {…}, "stacks": {…}}: seconds by layer, microseconds by stack
"""

import asyncio
import sys
from collections.abc import Callable

from benchmarks.profiles.sampler import Sampler
from benchmarks.rendezvous.members import Members, prepare, say, serve
from elasticjob_etcd.interface import Endpoint


class ProfiledMembers(Members):
    """The product's members, and a sampler beside them."""

    def __init__(self, endpoint: Endpoint, prefix: str, first: int, count: int) -> None:
        super().__init__(endpoint, prefix, first, count)
        self._sampler = Sampler()

    def orders(self) -> dict[str, Callable[[], None]]:
        """Return the orders of the parent."""
        return {**super().orders(), "begin": self._begin, "end": self._end}

    def _begin(self) -> None:
        self._sampler.start()
        say(sampled=True)

    def _end(self) -> None:
        say(layers=self._sampler.stop(), stacks=self._sampler.stacks)


if __name__ == "__main__":
    asyncio.run(serve(ProfiledMembers(*prepare(sys.argv[1:]))))
