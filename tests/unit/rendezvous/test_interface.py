"""The rendezvous interface: results, parameters, errors."""

import pytest

from elasticjob_agent import rendezvous
from elasticjob_agent.rendezvous import RendezvousInfo, RendezvousParameters, RendezvousStoreInfo
from elasticjob_agent.rendezvous.store import InMemoryStore


def parameters(**config: object) -> RendezvousParameters:
    return RendezvousParameters("etcd", "host:1", "run", 1, 2, **config)  # type: ignore[arg-type]


def test_a_result_unpacks_into_the_older_triple() -> None:
    store = InMemoryStore()
    got, rank, size = RendezvousInfo(store, 1, 3, RendezvousStoreInfo("host", 29500))
    assert (got, rank, size) == (store, 1, 3)


@pytest.mark.parametrize(
    ("backend", "low", "high", "message"),
    [
        pytest.param("", 1, 1, "must have a name", id="no backend"),
        pytest.param("etcd", 0, 1, "at least 1", id="min 0"),
        pytest.param("etcd", 3, 2, "below min_nodes", id="max below min"),
    ],
)
def test_invalid_parameters_are_refused(backend: str, low: int, high: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RendezvousParameters(backend, "", "run", low, high)


@pytest.mark.parametrize("word", ["1", "true", "T", "Yes", "y", 1, True])
def test_values_for_true(word: object) -> None:
    assert parameters(k=word).get_as_bool("k") is True


@pytest.mark.parametrize("word", ["0", "False", "f", "no", "N", 0, False])
def test_values_for_false(word: object) -> None:
    assert parameters(k=word).get_as_bool("k") is False


@pytest.mark.parametrize("word", ["maybe", "", 2, 1.0, []])
def test_other_values_are_refused_as_booleans(word: object) -> None:
    with pytest.raises(ValueError, match="option k is"):
        parameters(k=word).get_as_bool("k")


def test_numbers_and_invalid_numbers() -> None:
    got = parameters(a="12", b="1.5", c="x")
    assert got.get_as_int("a") == 12
    for key in "bc":
        with pytest.raises(ValueError, match=f"option {key} is"):
            got.get_as_int(key)


def test_absent_options_have_the_given_default() -> None:
    got = parameters()
    assert (got.get("k"), got.get("k", 1), got.get_as_int("k"), got.get_as_int("k", 4)) == (None, 1, None, 4)
    assert (got.get_as_bool("k"), got.get_as_bool("k", default=True)) == (None, True)


@pytest.mark.parametrize("kind", ["Closed", "Timeout", "Connection", "State", "GracefulExit"])
def test_errors_are_one_tree(kind: str) -> None:
    assert issubclass(getattr(rendezvous, f"Rendezvous{kind}Error"), rendezvous.RendezvousError)
