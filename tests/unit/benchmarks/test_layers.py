"""The layer that processor time belongs to: that of the innermost known frame; a library of Python is its caller's."""

import pytest

from benchmarks.profiles.layers import ETCD, GRPC, LINK, OTHER, RECORDS, RENDEZVOUS, TURNS, layer_of

_AGENT = "/x/elasticjob_agent/rendezvous"


@pytest.mark.parametrize(
    ("files", "layer"),
    [
        (["/x/elasticjob_etcd/client.py", f"{_AGENT}/member/rendezvous_member.py"], ETCD),
        (["/usr/json/encoder.py", "/x/elasticjob_api/records.py", f"{_AGENT}/member/session.py"], RECORDS),
        ([f"{_AGENT}/leader/dial.py", f"{_AGENT}/leader/round_leader.py"], LINK),
        (["/usr/asyncio/locks.py", f"{_AGENT}/member/rendezvous_member.py", "/usr/asyncio/events.py"], RENDEZVOUS),
        (["_cython_3.Callback poller", "/usr/asyncio/events.py"], GRPC),
        (["/usr/selectors.py", "/usr/asyncio/base_events.py"], TURNS),
        (["/usr/lib/threading.py"], OTHER),
    ],
    ids=[
        "a client",
        "a library of Python",
        "the link",
        "asyncio for one of ours",
        "a callback",
        "a turn",
        "no known layer",
    ],
)
def test_the_innermost_frame_of_a_known_layer_decides(files: list[str], layer: str) -> None:
    assert layer_of(files) == layer
