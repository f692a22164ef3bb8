"""Which kept import profiles are dropped: the oldest of the namespace with the most."""

from hypothesis import given
from hypothesis import strategies as st

from elasticjob_operator.policy.etcd.kept_profiles import MOST, MOST_OF_NAMESPACE, KeptProfile, profiles_to_drop


def profiles(namespace: str, *revisions: int) -> list[KeptProfile]:
    return [KeptProfile(f"{namespace}/{revision}", namespace, revision) for revision in revisions]


def test_few_are_kept() -> None:
    assert profiles_to_drop([]) == []
    assert profiles_to_drop(profiles("a", *range(MOST_OF_NAMESPACE))) == []


def test_the_oldest_of_a_namespace_with_too_many_is_dropped() -> None:
    assert profiles_to_drop(profiles("a", *range(MOST_OF_NAMESPACE + 1, 0, -1))) == ["a/1"]


def test_a_namespace_with_many_cannot_displace_another() -> None:
    small = profiles("small", 1)
    large = [each for number in range(MOST) for each in profiles(f"n{number // MOST_OF_NAMESPACE}", number + 2)]
    assert profiles_to_drop(small + large) == ["n0/2"]


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.integers(1, 10_000)), unique=True, max_size=200))
def test_what_is_left_is_within_the_limits(made: list[tuple[str, int]]) -> None:
    kept = [each for namespace, revision in made for each in profiles(namespace, revision)]
    dropped = set(profiles_to_drop(kept))
    left = [each for each in kept if each.key not in dropped]
    assert len(left) <= MOST
    assert all(sum(each.namespace == name for each in left) <= MOST_OF_NAMESPACE for name in "abcdefghijklmnop")
    assert len(left) == len(kept) or len(dropped) == len(kept) - len(left)
