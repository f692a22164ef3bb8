"""Volumes of pods whose workers have another user than the agent, or whose user owns no volume."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_agent.node.keep_settings import KeepSettings
from elasticjob_agent.node.keep_start import keeping_steps
from elasticjob_agent.node.node_keep import NodeKeep
from elasticjob_agent.rendezvous.member.join import NodeIdentity
from elasticjob_api import constants
from elasticjob_etcd.memory.client import InMemoryEtcd
from elasticjob_etcd.memory.store import InMemoryStore
from testing.processes import other_user
from tests.integration.keep.keeper_group import keeper_group
from tests.integration.keep.keepers import keeper
from tests.integration.keep.namespaces import run_as_user
from tests.integration.keep.node_keeps import HOST, KEYS, ME, OTHER, SECRET, active, join, until_complete
from tests.integration.keep.parts import contents

USER = 12345
PUBLISH = 'umask 077; mkdir "$1/writing"; printf weights > "$1/writing/state"; mv "$1/writing" "$1/step-7"'
# Not `subprocess` with a `user`: it would fork, and a process that uses gRPC may not survive a fork.
_BECOME = f"""
import os, sys
os.setgroups([])
os.setresgid({USER}, {USER}, {USER})
os.setresuid({USER}, {USER}, {USER})
os.execv("/bin/sh", ["sh", "-ec", sys.argv[1], "sh", sys.argv[2]])
"""


def empty_dir(keep_dir: Path, name: str = "") -> Path:
    """Make a volume as a kubelet does for a pod: of this user, and open to all."""
    keep_dir.parent.chmod(0o755)
    path = keep_dir / name
    path.mkdir(parents=True)
    path.chmod(0o777)
    return path


def run_worker(script: str, directory: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script as a worker of another user, with this directory as its argument."""
    command = [sys.executable, "-S", "-c", _BECOME, script, directory]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@asynccontextmanager
async def node(directory: Path, store: InMemoryStore, *, is_shared: bool = False) -> AsyncIterator[NodeKeep]:
    """Return the kept steps of an agent of this user, in a pod or in a directory that agents share."""
    identity = NodeIdentity(keys=KEYS, pod="pod", pod_uid="uid", host="host", address=HOST, nproc=1)
    settings = KeepSettings(directory=directory, is_shared=is_shared)
    async with keeping_steps(settings, identity, InMemoryEtcd(store)) as keep:
        assert keep is not None
        yield keep


@other_user.needs_root
async def test_workers_of_another_user_than_root_publish_and_every_node_restores_what_they_wrote(
    keep_dir: Path,
) -> None:
    store = InMemoryStore()
    volumes = [empty_dir(keep_dir, name) for name in ("first", "second")]
    async with node(volumes[0], store) as first, node(volumes[1], store) as second:
        for keep, member in (first, ME), (second, OTHER):
            keep.observe(member, link_secret=SECRET, leads=False)
        await until_complete(first, active(1))
        first.report_start()
        incoming = first.variables()[constants.ENV_KEEP]
        published = run_worker(PUBLISH, incoming)
        assert (published.returncode, published.stderr) == (0, "")
        await first.seal()
        join(store, ME, first.holdings)
        state = active(2, history="1.nonce1.7", restore="1.nonce1.7.1", sources="0:0")
        both = replace(state, members=(ME, OTHER), nprocs="1x2", roles="default*2")
        for keep in (first, second):
            await until_complete(keep, both)
            read = run_worker('cat "$1/state"', keep.variables()[constants.ENV_KEPT])
            assert (read.stdout, read.stderr) == ("weights", "")


@other_user.needs_root
async def test_a_worker_of_another_user_reaches_only_what_is_its_own(keep_dir: Path) -> None:
    volume = empty_dir(keep_dir, "first")
    async with node(volume, InMemoryStore()) as keep:
        keep.observe(ME, link_secret=None, leads=False)
        await until_complete(keep, active(1))
        incoming = Path(keep.variables()[constants.ENV_KEEP])
        (incoming / "of-root").mkdir()
        for script in ("ls held", "ls part", "mkdir new", "mkdir in/new", f"rmdir {incoming}/of-root"):
            assert run_worker(f'cd "$1"; {script}', str(volume)).returncode != 0, script


@other_user.needs_root
async def test_a_shared_directory_is_open_to_no_other_user(keep_dir: Path) -> None:
    async with node(empty_dir(keep_dir, "shm"), InMemoryStore(), is_shared=True) as keep:
        keep.observe(ME, link_secret=None, leads=False)
        await until_complete(keep, active(1))
        incoming = Path(keep.variables()[constants.ENV_KEEP])
        refused = run_worker(PUBLISH, str(incoming))
        assert "Permission denied" in refused.stderr


def test_keepers_and_workers_of_a_user_that_owns_no_volume_copy_and_restore_steps(keep_dir: Path) -> None:
    for incarnation in ("00000001", "00000002"):
        empty_dir(keep_dir, incarnation)

    async def act() -> None:
        async with keeper_group(keep_dir) as group:
            await group.round(*[await group.add(slot) for slot in range(2)])
            parts = group.publish(1)
            await group.until_committed(group.step(1))
            await group.round(*group.members)
            whole = parts[0] | parts[1]
            assert [node.kept and contents(node.kept) for node in group.members] == [whole] * 2

    run_as_user(USER, act)


def test_a_volume_that_the_user_of_the_keeper_cannot_write_is_refused_with_the_cause(keep_dir: Path) -> None:
    empty_dir(keep_dir).chmod(0o755)

    async def act() -> None:
        with pytest.raises(RequestRefused, match=f"cannot use {keep_dir}/in: Permission denied"):
            async with keeper(keep_dir):
                pass

    run_as_user(USER, act)
