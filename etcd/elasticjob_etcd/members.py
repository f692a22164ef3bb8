"""The members of an etcd cluster, as an administrator sees them; plain records."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EtcdMember:
    """One member of the cluster; its clients dial `targets`.

    It has neither a name nor targets before its first start.
    """

    id: int
    name: str
    targets: tuple[str, ...]
    peer_urls: tuple[str, ...] = ()
    is_learner: bool = False


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member's report about itself; sizes are bytes, `quota` is 0 where etcd is too old to report it."""

    id: int
    is_leader: bool
    revision: int
    db_size: int
    db_size_in_use: int
    quota: int = 0
