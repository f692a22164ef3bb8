"""The address of an etcd that one of the nodes starts for all."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEtcd:
    """An etcd that one of the nodes starts at host:port."""

    host: str
    port: int
    is_owner: bool | None
    """Whether this node starts it; None: it does if `host` is this machine."""
    master_port: int | None = None
    """MASTER_PORT of `static`, whose MASTER_ADDR is `host`."""
    or_there: bool = False
    """Whether an etcd that already listens there is accepted instead."""

    @property
    def target(self) -> str:
        """The address at which all nodes dial it: HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
