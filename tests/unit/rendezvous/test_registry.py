"""Backends by name, and the parameters of the backend `etcd`."""

from typing import Any

import pytest

from elasticjob_agent.rendezvous import RendezvousConnectionError, RendezvousParameters, etcd_backend
from elasticjob_agent.rendezvous.handler import EtcdRendezvousHandler
from elasticjob_agent.rendezvous.job_rendezvous import NodeInfo
from elasticjob_agent.rendezvous.registry import RendezvousHandlerRegistry, get_rendezvous_handler
from elasticjob_agent.rendezvous.static import StaticRendezvousHandler


def etcd(endpoint: str = "127.0.0.1:2379", run_id: str = "run", **config: Any) -> RendezvousParameters:
    return RendezvousParameters("etcd", endpoint, run_id, 1, 2, **config)


def test_known_backends_create_their_handlers() -> None:
    static = get_rendezvous_handler(RendezvousParameters("static", "host:1", "run", 1, 1, rank=0))
    assert isinstance(static, StaticRendezvousHandler)
    ours = get_rendezvous_handler(etcd())
    assert isinstance(ours, EtcdRendezvousHandler)
    assert (ours.get_run_id(), ours.num_nodes_waiting(), ours.shutdown()) == ("run", 0, True)


def test_an_unknown_backend_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'zookeeper' is not known; known are etcd, static"):
        get_rendezvous_handler(RendezvousParameters("zookeeper", "", "run", 1, 1))


def test_a_backend_of_a_program_is_registered_once() -> None:
    registry = RendezvousHandlerRegistry()
    registry.register("mine", etcd_backend.create)
    registry.register("mine", etcd_backend.create)
    with pytest.raises(ValueError, match="registered already"):
        registry.register("mine", lambda _: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="must have a name"):
        registry.register("", etcd_backend.create)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        pytest.param(etcd(""), "endpoint of an etcd rendezvous is missing", id="no endpoint"),
        pytest.param(etcd(run_id="a/b"), "a name without a slash", id="slash in the run id"),
        pytest.param(etcd(run_id=""), "a name without a slash", id="no run id"),
        pytest.param(etcd(join_timeout="soon"), "join_timeout is 'soon'", id="not a number"),
        pytest.param(etcd(join_timeout="-1"), "seconds above 0", id="negative"),
        pytest.param(etcd(join_timeout="0"), "must be a number of seconds above 0", id="zero"),
        pytest.param(etcd(last_call_timeout="-1"), "must be 0 or a number of seconds above 0", id="negative last call"),
    ],
)
def test_invalid_etcd_parameters_are_refused(params: RendezvousParameters, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        get_rendezvous_handler(params)


def test_an_unknown_host_of_etcd_is_a_connection_error() -> None:
    with pytest.raises(RendezvousConnectionError, match=r"this host cannot reach etcd at nowhere\.invalid:2379"):
        get_rendezvous_handler(etcd("nowhere.invalid"))


def test_etcd_options_are_in_the_spec_of_the_first_node() -> None:
    params = etcd(join_timeout="60", last_call_timeout=2, keep_alive="3", node_rank="4")
    node = NodeInfo(role="ps", local_world_size=5, max_restarts=7)
    identity = etcd_backend._identity(params, node, "10.0.0.1")
    spec = identity.own_spec
    assert spec is not None
    assert (spec.min, spec.max, spec.max_restarts, spec.join_timeout_s, spec.last_call_timeout_s) == (
        1,
        2,
        7,
        60.0,
        2.0,
    )
    assert (identity.nproc, identity.role, spec.keep_alive_s, identity.slot) == (5, "ps", 3.0, 4)


@pytest.mark.parametrize(("options", "last_call_s"), [({}, 1.0), ({"last_call_timeout": "0"}, 0.0)])
def test_the_last_call_timeout_can_be_zero(options: dict[str, str], last_call_s: float) -> None:
    node = NodeInfo(role="r", local_world_size=1, max_restarts=0)
    spec = etcd_backend._identity(etcd(**options), node, "10.0.0.1").own_spec
    assert spec is not None
    assert spec.last_call_timeout_s == last_call_s


def test_two_nodes_of_one_process_have_different_pods() -> None:
    node = NodeInfo(role="r", local_world_size=1, max_restarts=0)
    one, other = (etcd_backend._identity(etcd(), node, "10.0.0.1") for _ in range(2))
    assert (one.pod == other.pod, one.pod_uid == other.pod_uid) == (False, False)
