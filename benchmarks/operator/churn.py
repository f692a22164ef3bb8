"""Growth of the operator's memory while jobs are created, deleted and resized, and lose pods, for any time.

Memory is measured after each tenth of the time; the last value is compared with the first after warming up.
"""

import asyncio
import itertools
import random
import time
from typing import Any, Protocol

from benchmarks.operator.api_client import JOBS, Api
from benchmarks.operator.stack import OperatorProcess
from testing.servers.apiserver import ApiServer

CHANGES_PER_SECOND = 2.0
NAMESPACE = "team-1"
WINDOWS = 10
GROWTH_AIM = 1.05


class Place(Protocol):
    """The part of the bench that is needed."""

    server: ApiServer
    scale: Any

    def new_job(self, name: str) -> dict[str, Any]:
        """A manifest."""


class Churn:
    """Changes by users, and faults, in one namespace."""

    def __init__(self, api: Api, place: Place, rng: random.Random) -> None:
        self._api = api
        self._place = place
        self._rng = rng
        self._numbers = itertools.count()
        self._path = f"{JOBS}/namespaces/{NAMESPACE}/elasticjobs"
        self._pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    async def change_once(self) -> None:
        """Something happens."""
        items = (await self._api.request("GET", f"{self._path}?limit=100"))["items"]
        names = [item["metadata"]["name"] for item in items if "deletionTimestamp" not in item["metadata"]]
        name = self._rng.choice(names)
        what = self._rng.choice([self._replace, self._scale, self._lose, self._fail, self._suspend])
        await what(name)

    async def _replace(self, name: str) -> None:
        await self._api.request("DELETE", f"{self._path}/{name}", gone=True)
        await self._api.post(self._path, self._place.new_job(f"churn-{next(self._numbers)}"))

    async def _scale(self, name: str) -> None:
        replicas = self._rng.randint(2, self._place.scale.pods + 2)
        await self._api.merge(f"{self._path}/{name}", {"spec": {"replicas": replicas}}, gone=True)

    async def _suspend(self, name: str) -> None:
        for suspend in (True, False):
            await self._api.merge(f"{self._path}/{name}", {"spec": {"suspend": suspend}}, gone=True)
            await asyncio.sleep(1.0)

    async def _lose(self, name: str) -> None:
        if pod := await self._pod(name):
            await self._api.request("DELETE", f"{self._pods}/{pod}", gone=True)

    async def _fail(self, name: str) -> None:
        if pod := await self._pod(name):
            await self._api.merge(f"{self._pods}/{pod}/status", {"status": {"phase": "Failed"}}, gone=True)

    async def _pod(self, job: str) -> str:
        query = f"?labelSelector=elasticjob.io/job-name%3D{job}"
        pods = [item["metadata"]["name"] for item in (await self._api.request("GET", self._pods + query))["items"]]
        return self._rng.choice(pods) if pods else ""


def churn(
    place: Place,
    operator: OperatorProcess,
    for_s: float,
    rng: random.Random,
    *,
    acts_a_second: float = CHANGES_PER_SECOND,
) -> None:
    """Run the churn, and print the operator's figures after each tenth; exit if its memory grew."""

    async def window(until_s: float, number: int) -> int:
        acts = 0
        async with Api(place.server.url, place.server.certificate) as api:
            ongoing = Churn(api, place, rng)
            ongoing._numbers = itertools.count(number * 1_000_000)  # noqa: SLF001 -- names are used once in a run
            while time.monotonic() < until_s:
                await ongoing.change_once()
                acts += 1
                await asyncio.sleep(rng.expovariate(acts_a_second))
        return acts

    sizes = []
    for number in range(WINDOWS):
        cpu_s, began_s = operator.cpu_s, time.monotonic()
        acts = asyncio.run(window(began_s + for_s / WINDOWS, number))
        took_s = time.monotonic() - began_s
        sizes.append(operator.rss_mb)
        percent = 100 * (operator.cpu_s - cpu_s) / took_s
        print(f"churn {number + 1:2}/{WINDOWS}  {acts:5} acts  {sizes[-1]:6.0f} MB  {percent:5.1f} %", flush=True)
    growth = sizes[-1] / sizes[1]
    summary = f"churn: memory grew by {growth:.3f} (aim {GROWTH_AIM})"
    if growth > GROWTH_AIM:
        raise SystemExit(f"{summary}  MISSED")
    print(summary)
