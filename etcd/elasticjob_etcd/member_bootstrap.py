"""Starts one member of an etcd cluster in the right mode: the first process of etcd's container.

It queries the other members. A running etcd lists its members on its client port. A member without data answers on its
peer port, from this program, that it has none. `member_policy` decides by the answers. In the end etcd replaces this
process. All requests use gRPC, which has its own TLS: the payload's Python has none.
"""

import argparse
import contextlib
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from elasticjob_etcd import auth_bootstrap
from elasticjob_etcd.grpc_errors import is_of_learner
from elasticjob_etcd.maintenance import member_of
from elasticjob_etcd.member_policy import (
    Action,
    Answer,
    Decision,
    Empty,
    Learner,
    ListedMember,
    NoAnswer,
    Own,
    Running,
    decide,
)
from elasticjob_etcd.messages import rpc
from elasticjob_etcd.silent_grpc import grpc

OPTION = "--run-member"
"""The payload's first argument that selects this program."""
_SERVICE, _METHOD = "elasticjob.Member", "IsEmpty"
"""On the peer port of a waiting member: returns the member's peer URL; an etcd has no such method."""
_QUERY_S = 2.0
_POLL_S = 0.5
_START_S = 120.0
"""How long a member that starts on its data waits for a majority; the others may have lost theirs meanwhile."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of this member."""

    ca_cert: str
    cert: str
    key: str

    def client(self) -> grpc.ChannelCredentials:
        """Return credentials for requests: the peer's certificate must have its name, and etcd requires ours."""
        return grpc.ssl_channel_credentials(*(Path(path).read_bytes() for path in (self.ca_cert, self.key, self.cert)))

    def server(self) -> grpc.ServerCredentials:
        """Return credentials for answers; any client may learn that a member is empty."""
        return grpc.ssl_server_credentials([(Path(self.key).read_bytes(), Path(self.cert).read_bytes())])


@dataclass(frozen=True, slots=True)
class MemberAddress:
    """The addresses of a member: its peer URL, and HOST:PORT for clients."""

    peer_url: str
    client: str


@dataclass(frozen=True, slots=True)
class MemberCommand:
    """The command line of this member; `peers` are all members in order."""

    name: str
    peers: Mapping[str, MemberAddress]
    data_dir: Path
    listen: str
    admin: str
    tls: Tls | None
    serving: Sequence[str]
    command: Sequence[str]

    @property
    def others(self) -> dict[str, MemberAddress]:
        """All members but this one."""
        return {name: address for name, address in self.peers.items() if name != self.name}

    def own(self) -> Own:
        """Return this member as the policy needs it."""
        has_data = any((self.data_dir / "member" / "wal").glob("*.wal"))
        return Own(self.name, self.peers[self.name].peer_url, self.name == next(iter(self.peers)), has_data)

    @property
    def start_mark(self) -> Path:
        """Return a path beside the data; it exists if this program has started a member here."""
        return self.data_dir.parent / "started"

    @property
    def auth_mark(self) -> Path:
        """Return a path beside the data; it exists if authentication is enabled in the data or in their cluster."""
        return self.data_dir.parent / "auth-enabled"


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Exec etcd; return the exit code if that is not possible."""
    member = _parse(arguments)
    decision = _first_start(member, wait_until_decided(member))
    _log(f"{member.name}: {decision.action.value}")
    command = [*member.command, *_flags(member, decision)]
    if member.admin and (code := _enable_auth(member, decision.action, command, environment)):
        return code
    return _exec([*command, *member.serving], environment)


def _first_start(member: MemberCommand, decision: Decision) -> Decision:
    """Return the decision, but start data as they are if they were never started as one member of several.

    They may be those of a single member, which needs no others. `--force-new-cluster` drops entries of the log that are
    not marked as committed: after a crash the newest writes. If they do need others, the next start continues alone.
    """
    is_first = not member.start_mark.exists() and not member.auth_mark.exists()  # older versions wrote only the latter
    member.start_mark.parent.mkdir(parents=True, exist_ok=True)
    member.start_mark.touch()
    return Decision(Action.START) if is_first and decision.action is Action.FORCE else decision


def _enable_auth(member: MemberCommand, action: Action, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Enable authentication in the data where it is not enabled; return the exit code on failure, else 0."""
    if action in (Action.BOOTSTRAP, Action.FORCE):
        # The mark may be of other data, or of a join that received nothing. If this fails halfway, no mark may remain.
        member.auth_mark.unlink(missing_ok=True)
    if member.auth_mark.exists():
        return 0
    if action is not Action.JOIN:  # a member that joins gets the cluster's users with the rest of the data
        limit = [f"--timeout={_START_S:g}"] if action is Action.START else []
        if code := auth_bootstrap.main([f"--admin={member.admin}", *limit, "--", *command], environment):
            return code
    member.auth_mark.touch()
    return 0


def _exec(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    try:
        os.execvpe(command[0], command, dict(environment))  # noqa: S606 -- this is etcd's container
    except OSError as error:
        sys.exit(f"elasticjob-agent {OPTION}: {command[0]}: {error.strerror}")


def wait_until_decided(member: MemberCommand, *, pause_s: float = _POLL_S) -> Decision:
    """Query the others until the policy decides; while this member has no data it answers their queries."""
    own, logged = member.own(), ""
    with contextlib.ExitStack() as answering:
        if not own.has_data:
            answering.enter_context(_answering(member))
        while True:
            decision = decide(own, {name: query_member(other, member.tls) for name, other in member.others.items()})
            if decision.action is Action.DISCARD:
                _log(f"{member.name}: {decision.action.value}")
                member.auth_mark.unlink(missing_ok=True)
                _discard(member.data_dir)
                return wait_until_decided(member, pause_s=pause_s)
            if decision.action is not Action.WAIT:
                return decision
            if decision.reason != logged:
                logged = decision.reason
                _log(f"{member.name}: waiting: {logged}")
            time.sleep(pause_s)


def _discard(data_dir: Path) -> None:
    """Move the discarded data aside, for a person to look at; only the last ones remain."""
    aside = data_dir.with_name(f"{data_dir.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    data_dir.rename(aside)


def query_member(other: MemberAddress, tls: Tls | None) -> Answer:
    """Return another member's answer."""
    credentials = None if tls is None else tls.client()
    with _channel(other.client, credentials) as channel:
        try:
            listed = rpc.ClusterStub(channel).MemberList(rpc.MemberListRequest(), timeout=_QUERY_S).members
        except grpc.RpcError as error:
            if is_of_learner(error.details()):
                return Learner()
        else:
            return Running(tuple(ListedMember(m.name, m.peer_urls[0], m.is_learner) for m in map(member_of, listed)))
    return Empty() if _reports_empty(other.peer_url, credentials) else NoAnswer()


def is_empty(peer_url: str, ca_cert: str | None) -> bool:
    """Whether this member has answered that it has no data; False without an answer and for any other answer."""
    if peer_url.startswith("https://"):
        return _reports_empty(peer_url, grpc.ssl_channel_credentials(Path(ca_cert).read_bytes() if ca_cert else None))
    return _reports_empty(peer_url, None)


def _reports_empty(peer_url: str, credentials: grpc.ChannelCredentials | None) -> bool:
    with _channel(peer_url.partition("://")[2], credentials) as channel:
        try:
            answer: bytes = channel.unary_unary(f"/{_SERVICE}/{_METHOD}", None, None)(b"", timeout=_QUERY_S)
        except grpc.RpcError:
            return False
    return answer.decode(errors="replace") == peer_url


def _channel(target: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
    if credentials is None:
        return grpc.insecure_channel(target, options=options)
    return grpc.secure_channel(target, credentials, options=options)


@contextlib.contextmanager
def _answering(member: MemberCommand) -> Iterator[None]:
    """Answer other members that this one has no data, while the block runs."""
    url = member.peers[member.name].peer_url
    answer = grpc.unary_unary_rpc_method_handler(lambda _request, _context: url.encode())
    # Without this flag an etcd that begins to listen before this server has ended could share the port.
    server = grpc.server(ThreadPoolExecutor(2), options=(("grpc.so_reuseport", 0),))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: answer}),))
    address = f"{member.listen}:{url.rpartition(':')[2]}"
    if member.tls is None:
        server.add_insecure_port(address)
    else:
        server.add_secure_port(address, member.tls.server())
    server.start()
    try:
        yield
    finally:
        server.stop(grace=None).wait()


def _flags(member: MemberCommand, decision: Decision) -> list[str]:
    own_url = member.peers[member.name].peer_url
    flags = [f"--name={member.name}", f"--data-dir={member.data_dir}", f"--initial-advertise-peer-urls={own_url}"]
    initial = decision.initial_cluster or ((member.name, own_url),)
    flags.append("--initial-cluster=" + ",".join(f"{name}={url}" for name, url in initial))
    match decision.action:
        case Action.BOOTSTRAP:
            # The cluster id is a hash of this: data that was lost must not return as the same cluster.
            flags.append(f"--initial-cluster-token={uuid.uuid4().hex}")
        case Action.JOIN:
            flags.append("--initial-cluster-state=existing")
        case Action.FORCE:
            flags.append("--force-new-cluster")
        case _:
            pass
    return flags


def _parse(arguments: Sequence[str]) -> MemberCommand:
    parser = argparse.ArgumentParser(prog=f"elasticjob-agent {OPTION}", description=__doc__)
    parser.add_argument("--name", required=True, help="name of this member")
    parser.add_argument(
        "--member", action="append", required=True, metavar="NAME=PEER_URL,HOST:PORT", help="all members, in order"
    )
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--listen", default="0.0.0.0", help="address of the answer that it has no data")  # noqa: S104
    parser.add_argument("--enable-auth", default="", metavar="ADMIN", help="enable authentication in new data")
    for name in ("ca-cert", "cert", "key"):
        parser.add_argument(f"--{name}", default="", metavar="FILE")
    parser.add_argument(
        "--serving",
        action="append",
        default=[],
        metavar="FLAG",
        help="a flag of etcd for use after authentication is enabled",
    )
    parser.add_argument("command", nargs="+", metavar="ETCD", help="etcd and its other flags, after --")
    options = parser.parse_args(arguments)
    pairs = (pair.partition("=") for pair in options.member)
    peers = {name: MemberAddress(*where.split(",", 1)) for name, _, where in pairs}
    if options.name not in peers:
        parser.error(f"--name: {options.name} is not one of {', '.join(peers)}")
    tls = Tls(options.ca_cert, options.cert, options.key) if options.cert else None
    return MemberCommand(
        name=options.name,
        peers=peers,
        data_dir=options.data_dir,
        listen=options.listen,
        admin=options.enable_auth,
        tls=tls,
        serving=options.serving,
        command=options.command,
    )


def _log(message: str) -> None:
    print(f"elasticjob-agent {OPTION}: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:], os.environ))
