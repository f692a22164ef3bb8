"""Random walks of a simulated job: mostly progress, sometimes a fault. A seed gives the same walk each time.

Few of the random histories of Hypothesis reach a commit, a loss in the middle of it and the round after that. In a walk
most acts are those of a healthy job, so it does so often.
"""

from collections.abc import Callable, Collection
from random import Random

from tests.unit.agent.keep.sim.job import KeepJob
from tests.unit.agent.keep.sim.node import SimNode
from tests.unit.agent.keep.sim.rules import Rules

_PROGRESS_PER_FAULT = 12

Act = Callable[[KeepJob, SimNode, Random], object]

PROGRESS: dict[str, Act] = {
    "see": lambda job, node, _: job.see(node),
    "ready": lambda job, node, _: job.report_ready(node),
    "close": lambda job, _node, _: job.close(),
    "lead": lambda job, _node, _: job.lead(),
    "fetch": lambda job, node, random: job.fetch(node, random.randrange(8)),
    "start": lambda job, node, _: job.start(node),
    "train": lambda job, _node, _: job.train(),
    "publish": lambda job, node, _: job.publish(node),
    "replicate": lambda job, node, random: job.replicate(node, random.randrange(8)),
    "announce": lambda job, node, random: job.announce(node, random.choice([0, 0, 0, 1])),
    "decide": lambda job, _node, random: job.decide(random.choice([0, 0, 0, 1])),
    "receive": lambda job, node, random: job.receive(node, random.randrange(8)),
    "join": lambda job, node, _: job.join(node),
    "persist": lambda job, node, _: job.persist(node),
    "list": lambda job, node, _: job.list_directory(node),
    "show": lambda job, node, _: job.show_directory(node) or job.mend_keeper(node),
    "heal": lambda job, node, _: job.heal(node),
    "expire": lambda job, node, _: job.expire(node),
    "replace": lambda job, node, _: job.replace_pod(node),
    "come back": lambda job, node, _: job.come_back(node),
    "quiet end": lambda job, _node, _: job.end_quiet_time(),
    "depart": lambda job, node, _: job.depart(node),
}
"""The acts of a healthy job."""

_OF_DIRECTORY = {"persist", "list", "show"}

FAULTS: dict[str, Act] = {
    "hide": lambda job, node, _: job.hide_directory(node),
    "damage": lambda job, _node, random: job.damage_directory(random.choice([0, 0, 1, 2])),
    "worker": lambda job, node, _: job.fail_worker(node),
    "crash": lambda job, node, _: job.crash(node),
    "cut off": lambda job, node, _: job.cut_off(node),
    "restart": lambda job, node, _: job.restart_agent(node),
    "no keeper": lambda job, node, _: job.break_keeper(node),
    "leave": lambda job, node, _: job.leave(node),
    "leader": lambda job, _node, _: job.change_leader(),
    "fetch fails": lambda job, node, random: job.fetch(node, random.randrange(8), is_spurious=True),
    "lost answer": lambda _job, node, _: node.points and node.points.pop(0),
    "no room": lambda job, node, _: job.publish(node, has_room=False),
    "full": lambda job, node, random: job.replicate(node, random.randrange(8), has_room=False),
    "wipe": lambda job, _node, random: job.wipe(random.choice([None, -1, -2, -4])),
}


def walk(
    seed: int,
    *,
    acts: int,
    nodes: int,
    copies: int,
    layout: str,
    faults: Collection[str] = tuple(FAULTS),
    rules: Rules | None = None,
    has_directory: bool = True,
) -> int:
    """Walk, then let the job come to rest; return how many acts took place. Raise Violation."""
    random = Random(seed)
    job = KeepJob(nodes, layout=layout, copies=copies, highest=6, rules=rules)
    done = 0
    for _ in range(acts):
        if random.randrange(_PROGRESS_PER_FAULT):
            done += _go_on(job, random, has_directory=has_directory)
        else:
            done += bool(FAULTS[random.choice(sorted(faults))](job, random.choice(job.nodes), random))
    job.settle()
    return done


def _go_on(job: KeepJob, random: Random, *, has_directory: bool) -> bool:
    """Let one thing happen that can happen now."""
    names = sorted(PROGRESS if has_directory else PROGRESS.keys() - _OF_DIRECTORY)
    random.shuffle(names)
    for name in names:
        nodes = list(job.nodes)
        random.shuffle(nodes)
        if any(PROGRESS[name](job, node, random) for node in nodes):
            return True
    return False
