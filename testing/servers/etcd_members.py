"""Three members of an etcd that start as in the chart's pods: each by the program that decides, at its own ports.

A test kills a member, removes its data and starts it again. The operator's own `EtcdMemberReplacer` maintains the
membership, in the event loop of the test.
"""

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from elasticjob_etcd import die_with_parent, member_bootstrap
from elasticjob_etcd.client import EtcdClient
from elasticjob_etcd.errors import EtcdError
from elasticjob_etcd.interface import Endpoint
from elasticjob_etcd.maintenance import EtcdMaintenance
from elasticjob_etcd.members import EtcdMember
from elasticjob_operator.maintenance.membership import EtcdMemberReplacer
from elasticjob_operator.maintenance.volumes import EtcdVolumeReplacer
from elasticjob_operator.tls.ca import CertificateAuthority
from testing.network.ports import unused_port
from testing.servers.secured_etcd import program, write
from testing.waiting import aeventually

HOST = "127.0.0.1"
COUNT = 3
TIMEOUT_S = 60.0


class EtcdMembers:
    """Three members, not yet started."""

    def __init__(self, folder: Path, *, tls: bool, prefix: str = "m") -> None:
        ports = [unused_port() for _ in range(2 * COUNT)]
        self._folder = folder
        self._prefix = prefix
        self._clients = ports[:COUNT]
        self._scheme = "https" if tls else "http"
        self.urls = {self.name(i): f"{self._scheme}://{HOST}:{port}" for i, port in enumerate(ports[COUNT:])}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._began: dict[int, int] = {}
        self.endpoint = Endpoint(tuple(f"{HOST}:{port}" for port in self._clients), timeout_s=2.0)
        if tls:
            self.authority = CertificateAuthority.create(now_s=time.time())
            ca_cert, cert, key = self.certify(self.authority)
            self.endpoint = replace(self.endpoint, ca_cert=ca_cert, cert=cert, key=key)

    def certify(self, authority: CertificateAuthority) -> tuple[str, str, str]:
        """Give the members certificates of this authority, in a folder of theirs; return an administrator's paths."""
        times = {"now_s": time.time(), "life_s": 86400.0}
        write(self._folder / "server", authority.issue_server([HOST], **times), authority.trusted)
        write(self._folder / "root", authority.issue_client("root", **times), authority.trusted)
        root = self._folder / "root"
        return f"{root}/ca.crt", f"{root}/tls.crt", f"{root}/tls.key"

    def name(self, number: int) -> str:
        """Return the name of a member, which is also that of its pod."""
        return f"{self._prefix}{number}"

    def is_empty(self, peer_url: str) -> bool:
        """Return the answer to the operator's query."""
        return member_bootstrap.is_empty(peer_url, self.endpoint.ca_cert)

    def _secured(self) -> tuple[list[str], list[str], list[str]]:
        """Return options of the program, flags of etcd, flags for serving."""
        if self._scheme == "http":
            return [], [], []
        ca, cert, key = (f"{self._folder}/server/{name}" for name in ("ca.crt", "tls.crt", "tls.key"))
        peers = ["--peer-client-cert-auth", f"--peer-trusted-ca-file={ca}"]
        peers += [f"--peer-cert-file={cert}", f"--peer-key-file={key}"]
        clients = ["--client-cert-auth", f"--trusted-ca-file={ca}", f"--cert-file={cert}", f"--key-file={key}"]
        return ["--enable-auth=root", f"--ca-cert={ca}", f"--cert={cert}", f"--key={key}"], peers, clients

    def start(self, *numbers: int) -> None:
        """Start members that do not run; with data or without."""
        for number in numbers:
            name, client = self.name(number), f"{self._scheme}://{HOST}:{self._clients[number]}"
            known, among_peers, serving = self._secured()
            places = zip(self.urls.items(), self.endpoint.targets, strict=True)
            members = [f"--member={name}={url},{target}" for (name, url), target in places]
            options = [f"--name={name}", *members, f"--data-dir={self._data(number)}", f"--listen={HOST}"]
            etcd = [program(), "--unsafe-no-fsync", f"--listen-peer-urls={self.urls[name]}"]
            etcd += [f"--advertise-client-urls={client}", "--heartbeat-interval=50", "--election-timeout=500"]
            line = [sys.executable, "-m", member_bootstrap.__name__, *options, *known]
            line += [f"--serving={flag}" for flag in (f"--listen-client-urls={client}", *serving)]
            self._run(number, [*line, "--", *etcd, *among_peers])

    def start_alone(self, number: int) -> None:
        """Start one as the only member, with the chart's flags for a single member; without TLS."""
        name, client, port = self.name(number), f"http://{HOST}:{self._clients[number]}", unused_port()
        peer = f"http://{HOST}:{port}"
        flags = [f"--name={name}", f"--data-dir={self._data(number)}", f"--listen-client-urls={client}"]
        flags += [f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}", "--unsafe-no-fsync"]
        flags += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster={name}={peer}"]
        self._run(number, [program(), *flags])

    def _run(self, number: int, line: list[str]) -> None:
        tied = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid()), *line]
        with self._log(number).open("ab") as log:
            self._began[number] = log.tell()
            self._processes[number] = subprocess.Popen(tied, stdout=log, stderr=log, start_new_session=True)

    def kill(self, *numbers: int) -> None:
        """SIGKILL."""
        for number in numbers:
            self._processes[number].kill()
            self._processes[number].wait()

    def lose_data(self, *numbers: int) -> None:
        """Send SIGKILL, and delete their volumes."""
        self.kill(*numbers)
        for number in numbers:
            shutil.rmtree(self._data(number).parent)

    def suspend(self, *numbers: int) -> None:
        """Stop them with SIGSTOP: they answer nothing, and their connections remain."""
        for number in numbers:
            os.kill(self._processes[number].pid, signal.SIGSTOP)

    def resume(self, *numbers: int) -> None:
        """Continue them."""
        for number in numbers:
            os.kill(self._processes[number].pid, signal.SIGCONT)

    def log_of(self, number: int) -> str:
        """Return a member's log since its last start."""
        return self._log(number).read_text()[self._began[number] :]

    def decisions(self, number: int) -> list[str]:
        """Return a member's decisions, one for each start."""
        mark = f"elasticjob-agent {member_bootstrap.OPTION}: {self.name(number)}: "
        lines = [line.partition(mark)[2] for line in self._log(number).read_text().splitlines() if mark in line]
        return [line for line in lines if not line.startswith("waiting")]

    async def members(self) -> tuple[EtcdMember, ...]:
        """Return the members as etcd lists them; none while it does not answer."""
        with contextlib.suppress(EtcdError):
            async with EtcdMaintenance.connect(self.endpoint) as maintenance:
                return await maintenance.members()
        return ()

    async def wait_healthy(self) -> None:
        """Wait for three voters that all answer a read."""
        whole: Any = self._check_health  # mypy takes a coroutine function for a plain one
        await aeventually(whole, within_s=TIMEOUT_S, what="three members with a vote")

    async def _check_health(self) -> bool:
        voters = [member for member in await self.members() if member.name and not member.is_learner]
        return len(voters) == COUNT and all([await self._answers(member) for member in voters])

    async def _answers(self, member: EtcdMember) -> bool:
        client = EtcdClient(replace(self.endpoint, targets=member.targets, timeout_s=1.0))
        try:
            await client.get("health")
        except EtcdError:
            return False
        finally:
            await client.close()
        return True

    async def ids(self) -> dict[str, int]:
        """Return the ids of the members by name."""
        return {member.name: member.id for member in await self.members()}

    def stop(self) -> None:
        """End all members."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _data(self, number: int) -> Path:
        folder = self._folder / self.name(number) / "etcd"
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder

    def _log(self, number: int) -> Path:
        return self._folder / f"{self.name(number)}.log"


@contextlib.asynccontextmanager
async def etcd_members(
    folder: Path, *, tls: bool = False, prefix: str = "m", volumes: EtcdVolumeReplacer | None = None
) -> AsyncIterator[EtcdMembers]:
    """Three members with maintenance of the membership, stopped at the end."""
    made = EtcdMembers(folder, tls=tls, prefix=prefix)
    connect = functools.partial(EtcdMaintenance.connect, made.endpoint)
    keeper = EtcdMemberReplacer(connect, made.urls, made.is_empty, volumes=volumes, check_s=0.2)
    looking = asyncio.create_task(keeper.run())
    try:
        yield made
    finally:
        looking.cancel()
        await asyncio.wait({looking})
        made.stop()
