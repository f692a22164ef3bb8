"""A keeper announces what is not true: its own job may lose steps, and no node stops or restores a wrong one."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from elasticjob_agent.keep.keeper.errors import RequestRefused
from elasticjob_agent.keep.rules.commit import Announcement, SafePoint
from elasticjob_agent.keep.transfer.commit_frames import (
    MAX_PARTS,
    MAX_STEPS,
    encode_announcement,
    encode_safe_point,
)
from elasticjob_agent.keep.transfer.dialer import random_hex
from elasticjob_agent.keep.transfer.frames import Have
from elasticjob_agent.keep.transfer.handshake import Purpose
from elasticjob_agent.keep.transfer.session import connect, dial
from elasticjob_agent.rendezvous.protocol.keep.history import strike_step
from elasticjob_api.kept_steps import PART_LIMIT, STEP_NUMBER_LIMIT, KeptStep, Lineage
from testing.waiting import aeventually
from tests.integration.keep.keeper_group import GroupNode, KeeperGroup, keeper_group
from tests.integration.keep.lying_keeper import LyingKeeper
from tests.integration.keep.parts import contents

MIB = 1 << 20
WHOLE = frozenset({0, 1})
LAST = STEP_NUMBER_LIMIT - 1


async def begin(group: KeeperGroup) -> tuple[list[GroupNode], LyingKeeper, Lineage]:
    """Begin a round of two honest nodes, of which the first one leads, and of one that has announced nothing yet."""
    honest = [await group.add(slot) for slot in range(2)]
    third = await group.add(2, keeper=LyingKeeper)
    await group.round(*honest, third)
    assert isinstance(third.client, LyingKeeper)
    assert group.lineage is not None
    return honest, third.client, group.lineage


def claim(
    lineage: Lineage, *held: KeptStep, committed: KeptStep | None = None, oldest: KeptStep | None = None
) -> Announcement:
    """Return the claim to be a member of this round that holds these steps whole."""
    return Announcement(
        lineage=lineage,
        held={step: frozenset(range(step.parts)) for step in held},
        committed=committed,
        oldest_uncommitted=oldest,
        is_settled=True,
        is_restored=True,
    )


def publish(nodes: Sequence[GroupNode], number: int) -> dict[str, bytes]:
    """Let each of these nodes publish a part of a step; return all files of the step."""
    files = {f"part{index}": f"part {index} of step {number}".encode() for index in range(len(nodes))}
    for index, node in enumerate(nodes):
        node.publish(f"step-{number}.{index}-of-{len(nodes)}", {f"part{index}": files[f"part{index}"]})
    return files


async def until_taken(nodes: Sequence[GroupNode], step: KeptStep) -> None:
    """Return when each of these nodes holds its own part."""
    for index, node in enumerate(nodes):
        await aeventually(
            lambda index=index, node=node: index in node.client.holdings.get(step, ()),
            what=f"part {index} of {step} is taken",
        )


async def until_judged(node: GroupNode, number: int, taken: int) -> None:
    """Return when the keeper of this node has taken so many parts, and this step is dropped or committed."""

    async def is_judged() -> bool:
        is_held = bool([*node.volume.glob(f"held/*/{number}/*.json")])
        is_committed = node.committed is not None and node.committed.number == number
        is_taken = not list(node.incoming.iterdir()) and (await node.client.status()).taken >= taken
        return is_taken and is_held is is_committed

    judged: bool = await aeventually(is_judged, what=f"step {number} is dropped or committed")
    assert judged


async def assert_restored(group: KeeperGroup, nodes: Sequence[GroupNode], *allowed: dict[str, bytes] | None) -> None:
    """Begin a round of these nodes alone; fail unless all restore the same allowed files, and none was disturbed."""
    await group.round(*nodes)
    assert [node.kept and contents(node.kept) for node in nodes] in [[files] * len(nodes) for files in allowed]
    assert [(node.client.restarts, node.client.missed_seals) for node in nodes] == [(0, 0)] * len(nodes)


CLAIMS: dict[str, Callable[[Lineage], Announcement]] = {
    "a step that no member has": lambda now: claim(now, KeptStep(now, 9, 2)),
    "a step of a round that was given up": lambda now: claim(now, KeptStep(Lineage(0, "givenup"), 9, 1)),
    "a step of another run": lambda now: claim(now, KeptStep(Lineage(900, "another"), 9, 1)),
    "another count of parts": lambda now: claim(now, KeptStep(now, 5, 3)),
    "as many steps as fit": lambda now: claim(now, *(KeptStep(now, 9 + n, 1) for n in range(MAX_STEPS))),
    "as many parts as fit": lambda now: claim(now, *(KeptStep(now, 9 + n, PART_LIMIT) for n in range(4))),
}


@pytest.mark.parametrize("lie", CLAIMS.values(), ids=CLAIMS)
async def test_no_step_is_committed_by_the_claim_of_one_member_and_the_steps_of_the_others_are(
    keep_dir: Path, lie: Callable[[Lineage], Announcement]
) -> None:
    async with keeper_group(keep_dir) as group:
        honest, liar, now = await begin(group)
        liar.announce(encode_announcement(lie(now)))  # nothing is committed before it is read
        files = publish(honest, 5)
        await group.until_committed(group.step(5, 2), *honest)
        assert {point.committed for point in liar.points} <= {None, group.step(5, 2)}
        await assert_restored(group, honest, files)


MALFORMED = {
    "parts that do not ascend": ["1,0"],
    "a part twice": ["0,0"],
    "a part that the step does not have": ["2"],
    "too many steps": ["0"] * (MAX_STEPS + 1),
}


@pytest.mark.parametrize("indices", MALFORMED.values(), ids=MALFORMED)
async def test_a_member_with_a_claim_of_another_form_is_dialed_again_and_the_others_keep_their_steps(
    keep_dir: Path, indices: list[str]
) -> None:
    async with keeper_group(keep_dir) as group:
        honest, liar, now = await begin(group)
        held = [f"{KeptStep(now, 9 + n, 2)}:{text}" for n, text in enumerate(indices)]
        liar.announce(b"AT " + json.dumps({"lineage": str(now), "held": held, "isRestored": True}).encode())
        await aeventually(lambda: liar.channels > 1, what="another channel")
        files = publish(honest, 5)
        await until_taken(honest, group.step(5, 2))
        assert [node.committed for node in honest] == [None, None]
        liar.announce(encode_announcement(claim(now)))
        await group.until_committed(group.step(5, 2), *honest)
        await assert_restored(group, honest, files)


async def test_a_member_that_announces_another_round_delays_neither_steps_nor_restores(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        honest, liar, now = await begin(group)
        liar.announce(encode_announcement(claim(Lineage(900, "another"), KeptStep(now, 5, 2))))
        publish(honest, 1)
        for node in honest:
            await aeventually(
                lambda node=node: node.client.holdings == {group.step(1, 2): WHOLE}, what="it has its copies"
            )
        for number in range(2, 6):
            files = publish(honest, number)
            await until_taken(honest, group.step(number, 2))
        assert [node.committed for node in honest] == [None, None]
        await assert_restored(group, honest, files)


async def test_a_step_that_a_false_claim_commits_is_lost_with_its_only_holder_and_later_ones_are_kept(
    keep_dir: Path,
) -> None:
    async with keeper_group(keep_dir) as group:
        honest, liar, now = await begin(group)
        (first, second), third, step = honest, group.members[2], group.step(5, 2)
        liar.answer = Have()  # it takes nothing
        liar.announce(encode_announcement(claim(now, step)))
        publish(honest, 5)
        await group.until_committed(step, *honest)
        assert first.client.holdings == {step: {0}}
        await group.lose(second)
        fourth = await group.add(3)
        third.claimed[step] = WHOLE
        with pytest.raises(RequestRefused, match=f"no holder could send part {step}.1"):
            await group.round(first, fourth, third)
        group.history = strike_step(group.history, step)
        await assert_restored(group, [first, fourth], None)
        group.publish(6)
        await group.until_committed(group.step(6))


Say = Callable[[LyingKeeper, Sequence[GroupNode], SafePoint], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def announce(liar: LyingKeeper, _honest: Sequence[GroupNode], lie: SafePoint) -> Iterator[None]:
    """Send it to the leader's keeper, as a member does."""
    liar.announce(encode_announcement(claim(lie.lineage, committed=lie.committed, oldest=lie.floor)))
    yield


@contextlib.contextmanager
def pretend_to_lead(liar: LyingKeeper, honest: Sequence[GroupNode], lie: SafePoint) -> Iterator[None]:
    """Send it to each member, as the leader's keeper does."""
    with contextlib.ExitStack() as stack:
        for node in honest:
            connection = connect(node.address)
            stack.callback(connection.close)
            session = dial(connection, liar.credentials, Purpose.COMMIT, random_hex=random_hex)
            connection.write(session.outgoing.encode(encode_safe_point(lie)))
        yield


FALSE_POINTS: dict[str, Callable[[Lineage], SafePoint]] = {
    "commit": lambda now: SafePoint(now, committed=KeptStep(now, LAST, 1)),
    "floor": lambda now: SafePoint(now, floor=KeptStep(now, LAST, 1)),
}


@pytest.mark.parametrize("say", [announce, pretend_to_lead])
@pytest.mark.parametrize("lie", FALSE_POINTS)
async def test_a_false_commit_or_floor_costs_the_steps_of_its_round_and_none_of_a_later_one(
    keep_dir: Path, lie: str, say: Say
) -> None:
    async with keeper_group(keep_dir) as group:
        honest, liar, now = await begin(group)
        liar.announce(encode_announcement(claim(now)))
        files = publish(honest, 1)
        await group.until_committed(group.step(1, 2), *honest)
        kept = {} if lie == "commit" else {group.step(1, 2): WHOLE}
        honest[0].publish("step-2.0-of-2", {"part0": b"its step is never whole"})
        for node in honest:
            await aeventually(lambda node=node: group.step(2, 2) in node.client.holdings, what="the part and its copy")
        with say(liar, honest, FALSE_POINTS[lie](now)):
            for node in honest:
                await aeventually(lambda node=node: node.client.holdings == kept, what="the lie is believed")
            taken = [(await node.client.status()).taken for node in honest]
            later = publish(honest, 3)
            for node, before in zip(honest, taken, strict=True):
                # A part below the commit is not even taken.
                await until_judged(node, 3, before if lie == "commit" else before + 1)
        allowed = [None if lie == "commit" else files]
        if lie == "floor" and say is pretend_to_lead:
            allowed.append(later)  # the true leader may answer after the false one, and then its floor counts
        await assert_restored(group, honest, *allowed)
        group.publish(4)
        await group.until_committed(group.step(4))


async def test_endless_claims_of_many_parts_need_little_memory(keep_dir: Path) -> None:
    async with keeper_group(keep_dir) as group:
        honest, liar, now = await begin(group)
        leader = psutil.Process(honest[0].client.pid)
        before = leader.memory_info().rss
        steps = [KeptStep(now, 9 + n, PART_LIMIT) for n in range(MAX_PARTS // PART_LIMIT)]
        lies = [
            Announcement(
                lineage=now, held={step: frozenset(range(4 * turn + n, PART_LIMIT)) for n, step in enumerate(steps)}
            )
            for turn in range(15)
        ]
        liar.announce(*map(encode_announcement, lies), encode_announcement(claim(now)))
        files = publish(honest, 5)
        await group.until_committed(group.step(5, 2), *honest)  # so all claims are read
        assert leader.memory_info().rss - before < 160 * MIB
        await assert_restored(group, honest, files)
