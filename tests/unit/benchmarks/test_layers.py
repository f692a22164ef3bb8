"""Whose processor time it is: the innermost frame that is somebody's, and a library of Python's is its caller's."""

import pytest

from benchmarks.profiles.layers import ETCD, GRPC, LINK, OTHER, RECORDS, RENDEZVOUS, TURNS, layer_of

_AGENT = "/x/elasticjob_agent/rendezvous"


@pytest.mark.parametrize(
    ("files", "layer"),
    [
        (["/x/elasticjob_etcd/client.py", f"{_AGENT}/member.py"], ETCD),
        (["/usr/json/encoder.py", "/x/elasticjob_api/records.py", f"{_AGENT}/stay.py"], RECORDS),
        ([f"{_AGENT}/link_dial.py", f"{_AGENT}/closer.py"], LINK),
        (["/usr/asyncio/locks.py", f"{_AGENT}/member.py", "/usr/asyncio/events.py"], RENDEZVOUS),
        (["_cython_3.Callback poller", "/usr/asyncio/events.py"], GRPC),
        (["/usr/selectors.py", "/usr/asyncio/base_events.py"], TURNS),
        (["/usr/lib/threading.py"], OTHER),
    ],
    ids=["a client", "a library of Python", "the link", "asyncio for one of ours", "a callback", "a turn", "nobody's"],
)
def test_the_innermost_frame_that_is_somebodys_decides(files: list[str], layer: str) -> None:
    assert layer_of(files) == layer
