"""The first workers of a node, with the recording of another one in a real etcd: each import is done once for all."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elasticjob_agent.node.profile_store import EtcdProfileStore
from elasticjob_agent.rendezvous.protocol.transactions import SessionIdentity
from elasticjob_agent.supervisor import Child, Command, Supervisor
from elasticjob_agent.supervisor.forkserver_client import ForkServerClient
from elasticjob_agent.warm_start import warm_starter
from elasticjob_agent.warm_start.profiles import Profiles
from elasticjob_agent.warm_start.warm_starter import WarmStart
from elasticjob_api.import_profile import command_digest, decode_profile, encode_profile
from elasticjob_api.keys import Keys
from elasticjob_api.rendezvous_state import Member
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.embedded import EmbeddedEtcd
from elasticjob_etcd.interface import Delete, Put, Txn
from testing.processes.scripted_fleet import ScriptedFleet
from testing.waiting import aeventually, scaled
from tests.integration.warm_start.shown import SHOW, shown
from tests.integration.warm_start.warm_node import FAST, VARYING, WarmNode

pytestmark = pytest.mark.etcd
Sentences = Callable[[], list[str]]
Renew = Callable[[], None]


@pytest.fixture
def keys(prefix: str) -> Keys:
    return Keys(prefix.rstrip("/"))


@pytest.fixture
async def session(etcd: EtcdClient, keys: Keys) -> SessionIdentity:
    """The session of the node's agent, whose key exists."""
    lease = await etcd.lease_grant(60.0)
    me = SessionIdentity(keys, Member(0, "0000000a"), lease.id)
    await etcd.txn(Txn((), (Put(me.node_key, b"{}", lease.id),)))
    return me


@pytest.fixture
def store(etcd: EtcdClient, keys: Keys, session: SessionIdentity) -> EtcdProfileStore:
    return EtcdProfileStore(etcd, keys, lambda: session)


@pytest.fixture
def renew(node: WarmNode, supervisor: Supervisor, store: EtcdProfileStore) -> Renew:
    """Return a function that gives the node a new agent's starter, with the profiles in etcd."""
    node.env["GROUP_RANK"] = "0"

    def give() -> None:
        profiles = Profiles(store)
        node.starter = WarmStart(supervisor, varying=VARYING, output=node.preload, limits=FAST, profiles=profiles)

    return give


async def _record(node: WarmNode, renew: Renew) -> None:
    """Run a first node until its profile is in etcd, and prepare another one."""
    renew()
    assert await node.start() == [False, False]
    await node.ran()
    await node.forked_ahead()
    await node.settled()
    await node.stop()
    await node.starter.close()
    renew()


def _counting(node: WarmNode) -> Path:
    """Install a package that adds a byte to a file at each import; return the file."""
    count = node.folder / "count"
    node.package(
        "trap",
        f"import os\nfd = os.open({str(count)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        "os.write(fd, b'x')\nos.close(fd)",
    )
    node.script("import decimal, trap")
    return count


async def test_the_first_workers_of_another_node_share_one_import(
    node: WarmNode, renew: Renew, sentences: Sentences
) -> None:
    count = _counting(node)
    await _record(node, renew)
    count.unlink()
    assert await node.start() == [True, True]
    await node.ran()
    assert count.read_text() == "x"
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    assert count.read_text() == "x"
    assert sentences() == []


async def test_the_memory_is_measured_once_the_first_workers_have_started(node: WarmNode, renew: Renew) -> None:
    node.script()
    await _record(node, renew)
    assert await node.start() == [True, True]
    assert node.starter._memory.used == 0
    await node.forked_ahead()
    assert node.starter._memory.used > 0


async def test_the_profile_of_an_earlier_job_is_used_until_the_job_has_its_own(
    node: WarmNode, renew: Renew, etcd: EtcdClient, keys: Keys
) -> None:
    node.script()
    await _record(node, renew)
    own = await etcd.get(keys.import_profile)
    assert own is not None
    await etcd.txn(Txn((), (Put(keys.earlier_import_profile, own.value), Delete(keys.import_profile))))
    assert await node.start() == [True, True]
    await node.ran()
    await node.settled()
    assert await etcd.get(keys.import_profile) is None


async def test_a_package_that_has_changed_is_not_imported_ahead(
    node: WarmNode, renew: Renew, sentences: Sentences
) -> None:
    count = _counting(node)
    await _record(node, renew)
    count.unlink()
    path = node.packages / "trap.py"
    os.utime(path, ns=(1, 1))
    assert await node.start() == [False, False]
    await node.ran()
    await aeventually(lambda: count.exists() and count.read_text() == "xx", what="an import in each worker")
    assert sentences() == [
        f"not warm: the recording of another node was not used: {path} is not the file that another node has recorded"
    ]
    await node.forked_ahead()
    assert await node.restart() == [True, True]


async def test_a_profile_never_runs_another_program_in_the_place_of_a_zygote(
    node: WarmNode, renew: Renew, etcd: EtcdClient, keys: Keys, sentences: Sentences
) -> None:
    """The recording is false: it names a shell, and then a Python that skips site."""
    node.script()
    await _record(node, renew)
    own = await etcd.get(keys.import_profile)
    assert own is not None
    profile = decode_profile(own.value)
    assert profile is not None
    for argv in (("/bin/sh", "-c", f"exec {' '.join(node.argv())}"), (node.argv()[0], "-S", *node.argv()[1:])):
        forged = encode_profile(replace(profile, command=command_digest(argv)))
        assert forged is not None
        await etcd.txn(Txn((), (Put(keys.import_profile, forged),)))
        assert await node.start(*argv) == [False, False]
        await node.ran()
        await node.settled()
        assert len(node.run_files()) == node.nproc
        await node.stop()
        await node.starter.close()
        renew()
    assert all("the recording of another node was not used" in sentence for sentence in sentences()[:1])


async def test_what_an_unfit_profile_denies_is_forgotten(
    node: WarmNode, renew: Renew, etcd: EtcdClient, keys: Keys
) -> None:
    count = _counting(node)
    await _record(node, renew)
    own = await etcd.get(keys.import_profile)
    assert own is not None
    profile = decode_profile(own.value)
    assert profile is not None
    forged = encode_profile(replace(profile, denied=("trap",), files={str(node.packages / "trap.py"): 1}))
    assert forged is not None
    await etcd.txn(Txn((), (Put(keys.import_profile, forged),)))
    assert await node.start() == [False, False]
    await node.ran()
    await node.forked_ahead()
    count.unlink()
    assert await node.restart() == [True, True]
    await node.ran()
    assert not count.exists()


async def test_another_command_has_no_recording(node: WarmNode, renew: Renew) -> None:
    node.script()
    await _record(node, renew)
    assert await node.start(*node.argv(), "--epochs=3") == [False, False]
    await node.ran()


async def test_a_profile_that_others_have_written_is_none(
    node: WarmNode, renew: Renew, etcd: EtcdClient, keys: Keys
) -> None:
    node.script()
    renew()
    await etcd.txn(Txn((), (Put(keys.import_profile, b"x\xff"),)))
    assert await node.start() == [False, False]
    await node.ran()
    await node.forked_ahead()


async def test_one_node_of_the_job_writes(node: WarmNode, renew: Renew, etcd: EtcdClient, keys: Keys) -> None:
    node.script()
    node.env["GROUP_RANK"] = "1"
    renew()
    await node.start()
    await node.forked_ahead()
    await node.settled()
    assert await etcd.get(keys.import_profile) is None


async def test_a_stop_does_not_wait_for_the_imports(node: WarmNode, renew: Renew) -> None:
    mark = node.folder / "mark"
    node.package("trap", f"import os, time\nwhile os.path.exists({str(mark)!r}): time.sleep(0.01)")
    node.script("import decimal, trap")
    await _record(node, renew)
    mark.touch()
    starting = asyncio.create_task(node.start())
    await aeventually(lambda: node.starter._zygote.is_building, what="the build of the zygote")
    node.starter.stop_waiting()
    assert await starting == [False, False]
    assert not node.starter._zygote.ready
    mark.unlink()


async def test_a_fork_server_that_hangs_before_the_first_zygote_is_replaced(
    node: WarmNode, renew: Renew, supervisor: Supervisor
) -> None:
    node.script()
    await _record(node, renew)
    server = supervisor.server_pid
    os.kill(server, signal.SIGSTOP)
    async with asyncio.timeout(scaled(30)):
        assert await node.start() == [True, True]
    await node.ran()
    assert supervisor.server_pid != server


async def test_the_first_workers_do_not_wait_for_a_zygote_that_does_not_start(
    node: WarmNode, renew: Renew, supervisor: Supervisor, sentences: Sentences, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork server hangs from the request on."""
    node.script()
    await _record(node, renew)
    request = supervisor._request

    async def stop_and_request(kind: str, client: ForkServerClient, command: Command, number: int) -> Child:
        if kind == "zygote":
            os.kill(client.pid, signal.SIGSTOP)
        return await request(kind, client, command, number)

    with monkeypatch.context() as hanging:
        hanging.setattr(supervisor, "_request", stop_and_request)
        hanging.setattr(warm_starter, "MAX_WAIT_S", 1.0)
        node.starter._limits = replace(FAST, fork_s=0.0)
        async with asyncio.timeout(scaled(30)):
            assert await node.start() == [False, False]
    await node.ran()
    reason = "the recording of another node was not used: the first workers have waited 1 s for a zygote"
    assert sentences() == [f"not warm: {reason}"]


async def test_an_etcd_that_is_gone_makes_a_cold_start(node: WarmNode, renew: Renew, etcd: EtcdClient) -> None:
    node.script()
    renew()
    await etcd.close()
    assert await node.start() == [False, False]
    await node.ran()
    await node.forked_ahead()


async def test_a_profile_that_could_not_be_written_is_written_after_a_later_round(
    node: WarmNode, supervisor: Supervisor, etcd: EtcdClient, keys: Keys, session: SessionIdentity
) -> None:
    sessions: list[SessionIdentity] = []
    store = EtcdProfileStore(etcd, keys, lambda: sessions[0] if sessions else None)
    node.env["GROUP_RANK"] = "0"
    node.starter = WarmStart(supervisor, varying=VARYING, output=node.preload, limits=FAST, profiles=Profiles(store))
    node.script()
    await node.start()
    await node.forked_ahead()
    assert (await store.load())[0] is None
    sessions.append(session)
    assert await node.restart() == [True, True]
    await node.settled()
    assert (await store.load())[0] is not None


async def test_a_node_that_imports_something_else_starts_cold(
    node: WarmNode, renew: Renew, sentences: Sentences
) -> None:
    """The environment of another job may make an import leave a thread."""
    node.package(
        "trap",
        "import os, threading, time\nif os.environ['GROUP_RANK'] == '1': threading.Thread(target=time.sleep, "
        "args=(1000,), daemon=True).start()",
    )
    node.script("import decimal, trap")
    await _record(node, renew)
    node.env["GROUP_RANK"] = "1"
    assert await node.start() == [False, False]
    await node.ran()
    denied, sentence = sentences()
    assert denied.startswith("not preloaded: trap (leaves a thread: ")
    assert sentence.endswith("the recording of another node was not used: the imports did something else on this node")


async def test_a_session_that_has_ended_writes_no_profile(
    etcd: EtcdClient, keys: Keys, session: SessionIdentity, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent was silent for so long that another one has its slot, and has written what it has imported."""
    caplog.set_level(logging.INFO, logger="elasticjob_agent")
    store = EtcdProfileStore(etcd, keys, lambda: session)
    await store.save(b"early", 0)
    assert (await store.load())[0] == b"early"
    await etcd.lease_revoke(session.lease)
    lease = await etcd.lease_grant(60.0)
    newer = SessionIdentity(keys, session.member, lease.id)
    await etcd.txn(Txn((), (Put(newer.node_key, b"{}", lease.id),)))
    _, revision = await store.load()
    assert await EtcdProfileStore(etcd, keys, lambda: newer).save(b"newer", revision)
    _, revision = await store.load()
    assert not await store.save(b"late", revision)
    assert (await store.load())[0] == b"newer"
    assert caplog.messages == [
        "warm start: the import profile was not written: another node has, or our session has ended"
    ]
    assert not await EtcdProfileStore(etcd, keys, lambda: None).save(b"none", revision)
    assert not await EtcdProfileStore(etcd, keys, lambda: newer).save(b"of another revision", revision - 1)
    assert (await store.load())[0] == b"newer"


def test_the_first_workers_of_a_joiner_are_warm(etcd_server: EmbeddedEtcd, tmp_path: Path) -> None:
    job = ScriptedFleet(etcd_server.endpoint.targets[0], tmp_path, "1:2", 2, is_warm=True)
    try:
        job.run_scripted()
        job.await_round(1, 2)
        job.await_forked_ahead(1)
        job.await_profile()
        job.run_scripted()
        job.await_round(2, 4)
        assert [point["warm"] for point in job.running(2)] == [True] * 4
        job.all_finish()
    finally:
        job.finish()
        job.stop()


async def test_another_node_adds_the_variables_that_only_its_ranks_set(
    node: WarmNode, renew: Renew, store: EtcdProfileStore, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    """Each pod has one rank. Then a pod of a later job begins with the profile."""
    monkeypatch.setattr(warm_starter, "_REWRITE_S", (0.05,) * 1000)
    node.package("trap", "import os\nvalue = os.environ.get('FOO')")
    variable = "if os.environ['GROUP_RANK'] != '0': os.environ['FOO'] = '1'"
    node.script(f"import decimal\n{variable}\nimport trap, fractions" + SHOW.format("trap.value"))
    renew()
    first = node.starter
    node.env["GROUP_RANK"] = "1"
    renew()
    assert await node.start() == [False, False]
    assert await shown(node) == ["1", "1"]
    await node.forked_ahead()
    second, node.starter = node.starter, first
    node.env["GROUP_RANK"] = "0"
    assert await node.start() == [False, False]
    await node.forked_ahead()

    async def variables() -> object:
        profile = decode_profile((await store.load())[0] or b"")
        return profile and (profile.variables, profile.denied[-1:])

    await aeventually(lambda: not second._profiles.is_unwritten, what="the second node's write")  # type: ignore[union-attr]
    assert await variables() == ({"FOO": ("_decimal", "")}, ("trap",))
    await node.stop()
    for each in (first, second):
        await each.close()
    for group in ("1", "0"):
        node.env["GROUP_RANK"] = group
        renew()
        assert await node.start() == [True, True], node.starter.reason
        assert await shown(node) == [{"1": "1", "0": "None"}[group]] * 2
        await node.settled()
        await node.stop()
        await node.starter.close()
    assert await variables() == ({"FOO": ("_decimal", "")}, ("trap",))
    assert sentences() == ["not preloaded: trap (reads FOO, which the script has set or removed before)"]


async def test_a_variable_that_the_recorded_worker_sets_later_is_no_reason_on_another_node(
    node: WarmNode, renew: Renew, store: EtcdProfileStore, sentences: Sentences
) -> None:
    mark = node.folder / "mark"
    node.package("trap", "import os\nvalue = [name for name in os.environ if name.startswith('FOO')]")
    waiting = f"while not os.path.exists({str(mark)!r}): time.sleep(0.01)\nos.environ['FOO'] = '1'\n"
    node.script(
        "import trap, decimal, fractions",
        end=f"{waiting}print('set', os.environ['ROUND'], flush=True)\ntime.sleep(1000)",
    )
    renew()
    assert await node.start() == [False, False]
    await node.ran()
    await node.forked_ahead()
    mark.touch()

    async def is_known() -> bool:
        profile = decode_profile((await store.load())[0] or b"")
        return profile is not None and profile.known_variables == ("FOO",)

    _: bool = await aeventually(is_known, what="a profile with the variable")
    await node.stop()
    await node.starter.close()
    renew()
    for start in (node.start, node.restart):
        assert await start() == [True, True], node.starter.reason
        await aeventually(
            lambda: node.console.lines.count(f"set {node.round}") == 2, what="the variable in each worker"
        )
        await node.forked_ahead()
    assert sentences() == []


async def test_a_variable_that_is_set_in_the_pods_environment_by_now_is_recorded_anew(
    node: WarmNode, renew: Renew, sentences: Sentences
) -> None:
    """The line of the log asks for that: else the package would be left out as long as the profile is kept."""
    node.package("trap", "import os\nvalue = os.environ.get('FOO')")
    node.script("import decimal\nos.environ.setdefault('FOO', '1')\nimport trap, fractions" + SHOW.format("trap.value"))
    await _record(node, renew)
    node.env["FOO"] = "2"
    assert await node.start() == [False, False]
    assert await shown(node) == ["2", "2"]
    await node.forked_ahead()
    assert await node.restart() == [True, True]
    assert await shown(node) == ["2", "2"]
    assert sentences() == [
        "not preloaded: trap (reads FOO, which the script has set or removed before)",
        "not warm: the recording of another node was not used: FOO is in the environment of one of the two pods only",
    ]
