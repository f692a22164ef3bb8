"""The layer of a stack of Python's frames, innermost first.

The work of a Python library belongs to its caller: JSON of a record belongs to the record. Work without a caller of
ours belongs to the library: asyncio's loop, and for gRPC the work of its own callbacks.
"""

import re
from collections.abc import Iterable, Mapping

GRPC, PROTOBUF, ETCD, LINK, RENDEZVOUS = "gRPC", "protobuf", "etcd client", "link", "rendezvous"
RECORDS, AGENT, POLICY, CLUSTER, OPERATOR = "records", "agent", "operator: plans", "operator: clients", "operator"
KOPF, KUBERNETES, TURNS, OTHER = "kopf", "Kubernetes' client", "asyncio's turns", "all else"
_OF: Mapping[str, str] = {
    r"/grpc/|_cython|/cygrpc": GRPC,
    r"/google/protobuf/|_pb2\.py$": PROTOBUF,
    r"/kopf/": KOPF,
    r"/(kubernetes|aiohttp)/": KUBERNETES,
    r"/elasticjob_etcd/": ETCD,
    r"/elasticjob_agent/rendezvous/(?:\w+/)?(?:link\w*|dial|crash_proof|leader_monitor)\.py$": LINK,
    r"/elasticjob_agent/rendezvous/": RENDEZVOUS,
    r"/elasticjob_agent/": AGENT,
    r"/elasticjob_api/": RECORDS,
    r"/elasticjob_operator/(planner|policy|render)/": POLICY,
    r"/elasticjob_operator/(cluster|informers|maintenance)/": CLUSTER,
    r"/elasticjob_operator/": OPERATOR,
}
_TURNS = re.compile(r"/asyncio/|/selectors\.py$")
_KNOWN = [(re.compile(pattern), layer) for pattern, layer in _OF.items()]


def layer_of(files: Iterable[str]) -> str:
    """Return the layer of the innermost frame that has one; `files` are those of the frames, innermost first."""
    turns = False
    for file in files:
        for pattern, layer in _KNOWN:
            if pattern.search(file):
                return layer
        turns = turns or bool(_TURNS.search(file))
    return TURNS if turns else OTHER
