"""CONTRIBUTING.md, "A fault and where it goes": one failure in the real parts, compared with the page."""

import ast
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from elasticjob_agent.host.oom import OomCounter
from elasticjob_agent.net.ports import ReservedPort
from elasticjob_agent.rendezvous.protocol import transactions
from elasticjob_agent.rendezvous.protocol.leader_plan import WriteState, plan
from elasticjob_agent.rendezvous.protocol.member_plan import Workers
from elasticjob_agent.rendezvous.protocol.ranks import assignment
from elasticjob_agent.supervisor import Supervisor
from elasticjob_agent.workers.node_workers import NodeWorkers, WorkerTemplate
from elasticjob_agent.workers.progress import ProgressFifo
from elasticjob_api.failure_text import describe_failure
from elasticjob_api.keys import FailureKey
from elasticjob_api.records import WorkerFailure, encode
from elasticjob_api.rendezvous_state import (
    Cause,
    Membership,
    RendezvousState,
    encode_membership,
    encode_state,
    next_round,
)
from elasticjob_api.rendezvous_view import RendezvousView, parse_view
from elasticjob_api.runtime_config import runtime_config_of
from elasticjob_etcd.interface import Op, Put, Txn
from testing.operator_history import OperatorHistory, operator_history
from testing.waiting import aeventually
from tests.integration.cli.conftest import census, cli  # noqa: F401 -- fixtures
from tests.integration.cli.runs import Cli
from tests.unit.rendezvous.views import observed_at

ROOT = Path(__file__).resolve().parents[3]
MOST_WRITES = 5
SCRIPT = "raise ValueError('no data')"


def walkthrough() -> str:
    """Return the section of the page."""
    return (ROOT / "CONTRIBUTING.md").read_text().split("## A fault and where it goes\n")[1].split("\n## ")[0]


def values() -> dict[str, list[str]]:
    """Return the code spans in the last column of the table, by step."""
    rows = re.findall(r"^\| (\d+\w?) \|.*\| ([^|]+) \|$", walkthrough(), re.MULTILINE)
    return {step: re.findall(r"`([^`]+)`", last) for step, last in rows}


def named() -> list[tuple[str, str]]:
    """Return the functions and classes of the table, each with its file."""
    return re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", walkthrough())


def test_each_file_of_the_table_has_the_function_or_class_that_the_table_names() -> None:
    rows = walkthrough().split("\n\n")[1]
    assert len(named()) == len(re.findall(r"[\w/]+\.py", rows)), "a file of the table has no name beside it"
    for name, file in named():
        tree = ast.parse((ROOT / file).read_text())
        found = {each.name for each in tree.body if isinstance(each, (ast.ClassDef, ast.FunctionDef))}
        assert name in found, f"{file} has no {name}"


class Walk:
    """The job of one node with an operator, and a worker that is a real process."""

    def __init__(self, stage: OperatorHistory, folder: Path) -> None:
        self.stage, self.folder = stage, folder

    def state(self) -> RendezvousState:
        """The state of the rendezvous."""
        found = self.stage.state()
        assert found is not None
        return found

    async def failure(self) -> WorkerFailure:
        """Steps 1 and 2: a worker raises an error, and the agent makes a record of it."""
        state, [node] = self.state(), self.view().nodes.values()
        place = assignment(state, 0)
        spec = self.stage.spec()
        assert spec is not None
        supervisor, progress = await Supervisor.create(), ProgressFifo(self.folder / "progress")
        try:
            workers = NodeWorkers(
                supervisor=supervisor,
                template=self._job(node.record.pod),
                port=ReservedPort("127.0.0.1"),
                progress=progress,
                wall_ns=time.time_ns,
                memory=OomCounter(self.folder),
            )
            await workers.start(replace(place, nproc=1), runtime_config_of(spec))
            await aeventually(lambda: workers.phase is Workers.FAILED, within_s=30, what="the failure")
            [failure] = workers.failures.values()
        finally:
            await supervisor.close()
            progress.close()
        return failure

    def _job(self, pod: str) -> WorkerTemplate:
        return WorkerTemplate(
            argv=(sys.executable, "-S", "-c", SCRIPT),
            environment={},
            cwd=None,
            run_id="run",
            pod=pod,
            host="host",
            log_dir=self.folder,
            stdout=lambda _: None,
            stderr=lambda _: None,
        )

    async def open_round(self, record: WorkerFailure) -> str:
        """Step 3: the agent writes the record and opens the next round; return the key of the record."""
        state, view = self.state(), self.view()
        [node] = view.nodes.values()
        opened = next_round(state, f"open{state.round}", Cause.WORKER_FAILED, describe_failure(record))
        me = transactions.SessionIdentity(self.stage.keys, node.member, node.record.lease)
        failures = {FailureKey(state.round, node.member.slot, 0): record}
        result = await self.stage.etcd.txn(transactions.open_round(me, view.state_revision, opened, failures))
        assert result.succeeded
        return self.stage.keys.failure(state.round, node.member.slot, 0).removeprefix(self.stage.keys.prefix)

    async def lead(self) -> None:
        """Steps 4 and 5: the node is ready, and the leader plans and writes until it has nothing more to write."""
        state, [node] = self.stage.state(), self.view().nodes.values()
        round_ = state.round if state else 0
        key = self.stage.keys.node(node.member.slot, node.member.incarnation)
        ready = replace(node.record, ready=round_, master_port=29876, nproc=1)
        await self.stage.etcd.txn(Txn((), (Put(key, encode(ready), node.record.lease),)))
        for attempt in range(MOST_WRITES):
            decision = plan(self.view(), observed_at(1000.0), f"nonce-{round_}-{attempt}")
            if not isinstance(decision, WriteState):
                return
            await self.write(decision.state)
        raise AssertionError("the leader writes without an end")

    async def write(self, state: RendezvousState) -> None:
        """Write a state as the leader does."""
        puts: list[Op] = [Put(self.stage.keys.rendezvous_state, encode_state(state))]
        if state.members:
            puts.append(Put(self.stage.keys.members, encode_membership(Membership(state.round, state.members))))
        await self.stage.etcd.txn(Txn((), tuple(puts)))

    def view(self) -> RendezvousView:
        """All keys of the job, as the leader reads them."""
        found = self.stage.etcd.store.range(self.stage.keys.everything).kvs
        return parse_view(self.stage.keys, {kv.key: kv for kv in found})


def spelled(state: RendezvousState) -> str:
    """Return a state as the pages spell it."""
    return state.phase.value if state.phase.is_final else f"{state.phase.value}({state.round})"


async def test_the_page_has_the_value_of_each_step(tmp_path: Path) -> None:
    found: dict[str, list[str]] = {}
    async with operator_history(replicas=1, maxRestarts=1) as stage:
        await stage.run_pods(1)
        walk = Walk(stage, tmp_path)
        await walk.lead()
        record = await walk.failure()
        found["1"] = [str(record.exit_code)]
        found["2"] = [record.message]
        key = await walk.open_round(record)
        found["3"] = [f"P{key}", spelled(walk.state()), walk.state().cause.value]
        await walk.lead()
        found["4"] = [str(walk.state().restarts), walk.state().root_cause]
        found["5"] = [spelled(walk.state())]
        await stage.until("the failure", lambda: "lastFailure" in stage.status())
        status = stage.status()
        failure = status["lastFailure"]
        shown = ["status.restarts", str(status["restarts"])]
        found["6"] = [str(failure["exitCode"]), failure["reason"], failure["message"], *shown]
        await stage.until("an event", lambda: "WorkerFailed" in stage.events())
        found["7"] = ["WorkerFailed"]
        await walk.open_round(await walk.failure())
        await walk.lead()
        await stage.until("the end", lambda: stage.condition("Failed").get("status") == "True")
        condition = stage.condition("Failed")
        found["8"] = [spelled(walk.state()), condition["type"], condition["reason"]]
    on_the_page = values()
    assert found == {step: on_the_page.get(step) for step in found}


def test_the_same_happens_in_a_run(cli: Cli) -> None:  # noqa: F811 -- the fixture
    (cli.folder / "train.py").write_text(SCRIPT)
    cli.manifest("", maxRestarts=1, container={"command": ["python", "train.py"]})
    ended = cli.run()
    status = cli.status()
    assert values()["9"] == [str(ended.code)]
    assert status["lastFailure"]["message"] == "ValueError: no data"
    assert (status["phase"], status["reason"]) == ("Failed", "MaxRestartsExceeded")
