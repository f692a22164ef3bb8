"""Every rank's samples follow from seed, epoch, position and world: each sample once, at any size, in any Python."""

import subprocess
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elasticjob_agent.sampler import ElasticBatchSampler, MicroBatch, Permutation
from elasticjob_agent.user_python.worker import elasticjob_sampler
from testing.pythons import SUPPORTED, need_python

FILE = Path(str(elasticjob_sampler.__file__))
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what all ranks of a training agree on, whatever their number."""
    num_samples = draw(st.integers(1, 120))
    drop_last = draw(st.booleans())
    return {
        "num_samples": num_samples,
        "global_batch_size": draw(st.integers(1, num_samples if drop_last else 40)),
        "micro_batch_size": draw(st.none() | st.integers(1, 12)),
        "seed": draw(st.integers(-5, 2**70)),
        "shuffle": draw(st.booleans()),
        "drop_last": drop_last,
    }


worlds = st.integers(1, 9)


def ranks(plan: dict[str, Any], world: int, step: int = 0) -> list[ElasticBatchSampler]:
    """Return the samplers of all ranks, before the step after `step` ones."""
    samplers = [ElasticBatchSampler(**plan, num_replicas=world, rank=rank) for rank in range(world)]
    for sampler in samplers:
        sampler.set_step(step)
    return samplers


def steps_of(sampler: ElasticBatchSampler) -> list[list[MicroBatch]]:
    """Return the micro-batches of each step from the position on."""
    steps: list[list[MicroBatch]] = [[]]
    for micro in sampler.micro_batches():
        steps[-1].append(micro)
        if micro.is_last:
            steps.append([])
    assert steps.pop() == [], "the last micro-batch ends a step"
    return steps


def trained(step: list[MicroBatch]) -> list[int]:
    """Return the samples that count in a step of one rank."""
    return [index for micro in step if micro.scale for index in micro.indices]


def global_batches(plan: dict[str, Any], world: int, step: int = 0) -> list[list[int]]:
    """Return the samples of each step to the end of the epoch, in the order of the ranks."""
    shares = [[trained(each) for each in steps_of(sampler)] for sampler in ranks(plan, world, step)]
    return [[index for share in batch for index in share] for batch in zip(*shares, strict=True)]


@patient
@given(plans(), st.lists(st.tuples(worlds, st.integers(0, 7)), max_size=6), worlds, st.integers(0, 3))
def test_each_sample_is_trained_once_in_an_epoch_through_changes_of_size(
    plan: dict[str, Any], phases: list[tuple[int, int]], last: int, epoch: int
) -> None:
    per_epoch = ElasticBatchSampler(**plan).steps_per_epoch
    counts: Counter[int] = Counter()
    position = 0
    for world, steps in [*phases, (last, per_epoch)]:
        done = [] if position == per_epoch else global_batches(plan, world, epoch * per_epoch + position)[:steps]
        position += len(done)
        counts.update(index for batch in done for index in batch)
    whole = per_epoch * plan["global_batch_size"]
    assert position == per_epoch
    assert set(counts.values()) == {1}
    assert len(counts) == (whole if plan["drop_last"] else plan["num_samples"])
    assert set(counts) <= set(range(plan["num_samples"]))


@patient
@given(plans(), worlds, st.integers(0, 300))
def test_a_global_batch_is_the_same_at_any_size(plan: dict[str, Any], world: int, step: int) -> None:
    alone = global_batches({**plan, "micro_batch_size": None}, 1, step)
    assert global_batches(plan, world, step) == alone
    assert {len(batch) for batch in alone[:-1]} <= {plan["global_batch_size"]}


@patient
@given(plans(), worlds)
def test_an_epoch_is_the_permutation_of_its_number(plan: dict[str, Any], world: int) -> None:
    shuffled = {**plan, "shuffle": True, "drop_last": False}
    per_epoch = ElasticBatchSampler(**shuffled).steps_per_epoch
    for epoch in range(3):
        order = list(Permutation(plan["num_samples"], plan["seed"], epoch))
        assert [index for batch in global_batches(shuffled, world, epoch * per_epoch) for index in batch] == order


@patient
@given(plans(), worlds, st.integers(0, 100), st.integers(0, 20))
def test_samples_depend_on_the_position_alone_and_not_on_what_was_read(
    plan: dict[str, Any], world: int, step: int, read: int
) -> None:
    for used, fresh in zip(ranks(plan, world), ranks(plan, world, step), strict=True):
        for _, _ in zip(used, range(read), strict=False):
            pass
        used.set_step(step)
        running = iter(used)
        expected = list(fresh.micro_batches())
        assert list(used.micro_batches()) == expected
        assert (used.epoch, used.position) == divmod(step, used.steps_per_epoch)
        used.set_step(step + 1)
        assert list(running) == [micro.indices for micro in expected], "a reader keeps the position of its beginning"


@patient
@given(plans(), worlds, st.integers(0, 100))
def test_the_mean_of_the_scaled_gradients_is_that_of_the_global_batch(
    plan: dict[str, Any], world: int, step: int
) -> None:
    def gradient(index: int) -> float:
        return (index * 37 % 101) / 101 - 0.3

    shares = [steps_of(sampler) for sampler in ranks(plan, world, step)]
    for batch in zip(*shares, strict=True):
        means = [
            micro.scale * sum(map(gradient, micro.indices)) / len(micro.indices) for share in batch for micro in share
        ]
        samples = [index for share in batch for index in trained(share)]
        assert sum(means) / world == pytest.approx(sum(map(gradient, samples)) / len(samples), abs=1e-12)


@patient
@given(plans(), worlds)
def test_all_ranks_have_as_many_micro_batches_and_none_is_empty_or_too_large(plan: dict[str, Any], world: int) -> None:
    samplers = ranks(plan, world)
    all_steps = [steps_of(sampler) for sampler in samplers]
    for batch in zip(*all_steps, strict=True):
        assert len({len(share) for share in batch}) == 1
        sizes = [len(trained(share)) for share in batch]
        assert max(sizes) - min(sizes) <= 1
        for micro in (micro for share in batch for micro in share):
            assert 1 <= len(micro.indices) <= (plan["micro_batch_size"] or plan["global_batch_size"])
            assert micro.scale or len(micro.indices) == 1
    assert [len(sampler) for sampler in samplers] == [sum(map(len, steps)) for steps in all_steps]
    assert [list(sampler) for sampler in samplers] == [
        [micro.indices for step in steps for micro in step] for steps in all_steps
    ]


@patient
@given(plans(), worlds, st.integers(0, 100))
def test_a_stream_is_read_once_and_each_rank_takes_its_samples(plan: dict[str, Any], world: int, step: int) -> None:
    for sampler in ranks({**plan, "shuffle": False}, world, step):
        stream = (f"sample {number}" for number in range(plan["num_samples"]))
        taken = list(sampler.select(stream))
        assert [micro for micro, _ in taken] == list(sampler.micro_batches())
        assert all(samples == [f"sample {index}" for index in micro.indices] for micro, samples in taken)


def test_a_stream_cannot_be_shuffled() -> None:
    with pytest.raises(ValueError, match="shuffle=False"):
        next(ElasticBatchSampler(8, 4).select(range(8)))


def test_a_stream_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="ended after 3 of 8 samples"):
        list(ElasticBatchSampler(8, 4, shuffle=False).select(range(3)))


@pytest.mark.parametrize("size", [*range(40), 1000, 1024, 1025])
def test_a_permutation_has_each_number_once(size: int) -> None:
    made = Permutation(size, seed=1, epoch=2)
    assert sorted(made) == list(range(size)) == list(range(len(made)))
    with pytest.raises(IndexError):
        made[size]


@pytest.mark.parametrize("size", [2, 3, 5, 8, 13])
def test_each_number_is_as_likely_at_each_place(size: int) -> None:
    drawn = 2000
    counts = Counter((place, number) for seed in range(drawn) for place, number in enumerate(Permutation(size, seed)))
    expected = Fraction(drawn, size)
    deviation = sum(
        (counts[place, number] - expected) ** 2 / expected for place in range(size) for number in range(size)
    )
    freedom = (size - 1) ** 2
    assert deviation * (size - 1) / size < freedom + 5 * (2 * freedom) ** 0.5


def test_neighbours_are_not_neighbours_afterwards() -> None:
    order = list(Permutation(2000, seed=11))
    assert sum(abs(first - second) == 1 for first, second in pairwise(order)) < 12
    runs = [len(list(group)) for _, group in groupby(first < second for first, second in pairwise(order))]
    assert max(runs) < 10


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    orders = {tuple(Permutation(50, seed, epoch)) for seed in (-1, 0, 1, 2**80) for epoch in range(5)}
    assert len(orders) == 20


def test_the_epoch_of_a_loop_keeps_the_position_of_its_checkpoint() -> None:
    sampler = ElasticBatchSampler(10, 4)
    sampler.set_step(7)
    assert (sampler.steps_per_epoch, sampler.epoch, sampler.position) == (3, 2, 1)
    sampler.set_epoch(2)
    assert sampler.position == 1
    sampler.set_epoch(3)
    assert (sampler.epoch, sampler.position) == (3, 0)


def test_rank_and_world_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert list(ElasticBatchSampler(9, 9)) == list(ElasticBatchSampler(9, 9, num_replicas=3, rank=2))
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert list(ElasticBatchSampler(9, 9)) == [list(Permutation(9))]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"num_samples": 0}, "num_samples is 0; the least is 1"),
        ({"global_batch_size": 0}, "global_batch_size is 0"),
        ({"micro_batch_size": 0}, "micro_batch_size is 0"),
        ({"num_replicas": 0}, "num_replicas is 0"),
        ({"num_replicas": 2, "rank": 2}, "rank 2 of 2 does not exist"),
        ({"num_replicas": 2, "rank": -1}, "rank -1 of 2 does not exist"),
        ({"num_samples": 3, "drop_last": True}, "3 samples make no global batch of 4"),
    ],
)
def test_a_size_that_cannot_be_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ElasticBatchSampler(**{"num_samples": 8, "global_batch_size": 4, **arguments})


@pytest.mark.parametrize("kind", [bool, np.int8, np.int64, np.uint64, np.array])
def test_whole_numbers_of_any_type_give_the_same_samples(kind: Callable[[int], Any]) -> None:
    made = ElasticBatchSampler(kind(1), kind(1), kind(1), num_replicas=kind(1), rank=kind(0))
    assert list(made) == [[0]]
    large = int if kind is bool else kind
    sampler = ElasticBatchSampler(large(40), large(7), large(3), num_replicas=large(2), rank=kind(1))
    plain = ElasticBatchSampler(40, 7, 3, num_replicas=2, rank=1)
    for step in (0, 1):
        sampler.set_step(kind(step))
        plain.set_step(step)
        assert (list(sampler), len(sampler)) == (list(plain), len(plain))
    sampler.set_epoch(kind(1))
    plain.set_epoch(1)
    assert list(sampler) == list(plain)
    order = Permutation(large(40), epoch=kind(1))
    assert [order[kind(place)] for place in (0, 1)] == list(Permutation(40, epoch=1))[:2]


@pytest.mark.parametrize("value", [1.0, 0.5, "1", None])
def test_a_number_that_is_no_whole_number_is_refused_by_its_name(value: Any) -> None:
    sampler = ElasticBatchSampler(8, 4)
    with pytest.raises(TypeError, match="num_samples is"):
        ElasticBatchSampler(value, 4)
    with pytest.raises(TypeError, match="step is"):
        sampler.set_step(value)
    with pytest.raises(TypeError, match="epoch is"):
        sampler.set_epoch(value)
    assert (sampler.epoch, sampler.position) == (0, 0)


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(ValueError, match="step -1"):
        ElasticBatchSampler(8, 4).set_step(-1)


ORDER = [3, 9, 2, 8, 1, 4, 11, 10, 0, 7, 6, 5]
"""`Permutation(12, seed=7, epoch=3)`. A release that changes it would change the samples of a training that goes on."""
DIGEST = "e358431bb730e82da6d826780b1657b2c30a61dae052f7e11405d47b77569baa"
SHOW = """
import hashlib
from elasticjob_sampler import ElasticBatchSampler, Permutation
print(list(Permutation(12, seed=7, epoch=3)))
parts = [
    ElasticBatchSampler(size, batch, micro, num_replicas=world, rank=rank, seed=size, drop_last=world == 2)
    for size, batch, micro in ((417, 26, 3), (40, 7, None), (10**4, 3000, 99))
    for world in (1, 2, 5)
    for rank in range(world)
]
print(hashlib.sha256(repr([[tuple(micro) for micro in part.micro_batches()] for part in parts]).encode()).hexdigest())
"""


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_file_alone_gives_the_same_samples_in_each_python(version: str, tmp_path: Path) -> None:
    (tmp_path / FILE.name).write_bytes(FILE.read_bytes())
    command = [need_python(version), "-c", SHOW]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{ORDER}\n{DIGEST}\n", "")
