"""The simulation of many nodes: it finds the bottleneck it was given, and moves it where the machine is made larger."""

from dataclasses import replace

import pytest

from benchmarks.rendezvous import simulation
from benchmarks.rendezvous.fits import Line, PowerLaw
from benchmarks.rendezvous.simulation import CLUSTER, Costs, Queue, simulate
from benchmarks.report.results import OURS, Series

COSTS = Costs(
    etcd_join_s=0.001,
    etcd_ready_s=0.0002,
    member_join_s=0.002,
    member_ready_s=0.001,
    plan=PowerLaw(1e-5, 1.0),
    place=PowerLaw(1e-6, 1.0),
    join_bytes=Line(2000, 0.0),
)


def test_a_queue_serves_as_many_at_once_as_it_has_servers() -> None:
    queue = Queue(2)
    assert [queue.serve(0.0, 1.0) for _ in range(4)] == [1.0, 1.0, 2.0, 2.0]
    assert queue.serve(5.0, 1.0) == 6.0


def test_twice_the_cores_halve_a_round_that_etcds_processor_bounds() -> None:
    some, more = (simulate(1000, COSTS, replace(CLUSTER, cores=cores)) for cores in (2, 4))
    assert some.bottleneck == "etcd's processor"
    assert more.first_s == pytest.approx(some.first_s / 2, rel=0.1)


def test_a_map_that_every_joiner_reads_makes_the_network_the_bottleneck() -> None:
    mapped = replace(COSTS, join_bytes=Line(2000, 140.0))
    assert simulate(4000, mapped, CLUSTER).bottleneck == "etcd's network"
    assert simulate(4000, mapped, CLUSTER).first_s > 1.5 * simulate(4000, COSTS, CLUSTER).first_s


def test_members_on_etcds_own_cores_take_longer_than_on_theirs() -> None:
    assert simulate(100, COSTS, replace(CLUSTER, shared=True)).first_s > simulate(100, COSTS, CLUSTER).first_s


def test_nothing_is_simulated_from_half_a_measurement() -> None:
    assert simulation.report([Series("rendezvous", "first round", OURS, (1.0,), size=64)]) == []
