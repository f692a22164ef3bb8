"""The state of one worker of the fork server, and of one request that waits for its answer."""


class ForkedWorker:
    """A forked process that has not been reaped."""

    def __init__(self, number: int, pid: int, *, handshake: int, forked_ns: int, is_preforked: bool = False) -> None:
        self.number = number
        self.pid = pid
        self.handshake = handshake
        self.forked_ns = forked_ns
        self.is_preforked = is_preforked
        """Whether a zygote forked it. Its handshake is a socket then; see preforked.py."""
        self.failure = b""
        self.stopped = False


class PendingRequest:
    """A request of the agent: wait until groups are empty or, after a kill, until trees are gone."""

    def __init__(self, request: int, numbers: "set[int]", signum: int = 0) -> None:
        self.request = request
        """0: the fork server ends, and no one has asked for it."""
        self.numbers = numbers
        self.signum = signum
        """The signal for the groups; 0: kill the trees."""
