"""The etcd key layout of one job. Keys are spelt here only.

    P = /elasticjob/<cluster>/<namespace>/<name>/<uid>     a job of an operator
    P = /elasticjob/cli/<rendezvous id>                    a job of the command line
    P/c/…                                                  control: decisions depend on it
    P/c/ctl/…                                              every agent watches it
    P/r/…                                                  reports: only for display
    P/w/imports                                            the import profile: it only makes a start faster
    P/w/earlier                                            that of an earlier job
    /elasticjob/imports/<cluster>/<namespace>/<its uid>/<name>    one that the operator keeps for later jobs

The uid is in the key, so a re-created job never shares keys with its predecessor. Slots are four hex digits and
incarnations eight, so that keys sort by slot and a member is twelve bytes.
"""

import re
from dataclasses import dataclass
from typing import Literal

ROOT = "/elasticjob"
SLOT_LIMIT = 0x10000

Kind = Literal[
    "spec",
    "expected",
    "world",
    "closer",
    "terms",
    "link",
    "members",
    "node",
    "held",
    "failure",
    "done",
    "gone",
    "report",
    "samples",
    "imports",
    "earlier",
]

_SLOT = "[0-9a-f]{4}"
# Bounded, and ASCII only: a key may come from any source, and `int` rejects a text of more than 4,300 digits.
# Without leading zeros: two keys never name the same failure or completion.
_NUMBER = "(?:0|[1-9][0-9]{0,9})"
_SINGLES: dict[str, Kind] = {
    "c/spec": "spec",
    "c/expected": "expected",
    "c/members": "members",
    "c/ctl/world": "world",
    "c/ctl/closer": "closer",
    "c/ctl/terms": "terms",
    "c/ctl/link": "link",
    "w/imports": "imports",
    "w/earlier": "earlier",
}
_MEMBERS: dict[str, Kind] = {
    "c/nodes": "node",
    "c/held": "held",
    "c/gone": "gone",
    "r": "report",
    "r/samples": "samples",
}
_MEMBER = re.compile(rf"(c/nodes|c/held|c/gone|r)/({_SLOT})\.([0-9a-f]{{8}})(/samples|)")
_FAILURE = re.compile(rf"({_NUMBER})/({_SLOT})\.({_NUMBER})")
_COMPLETION = re.compile(rf"c/done/({_NUMBER})/({_SLOT})")
_FAILURES = "c/failures/"


@dataclass(frozen=True, slots=True, order=True)
class FailureKey:
    """The name of one worker's failure: the end of its key, below `P/c/failures/`."""

    round: int
    slot: int
    local_rank: int

    def __str__(self) -> str:
        """Return `<round>/<slot>.<local rank>`."""
        return f"{self.round}/{self.slot:04x}.{self.local_rank}"

    @classmethod
    def parse(cls, text: str) -> "FailureKey | None":
        """Return the failure that `text` names, as `str` writes it; None for other text."""
        match = _FAILURE.fullmatch(text)
        return None if match is None else cls(int(match[1]), int(match[2], 16), int(match[3]))


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """A parsed key below a job's prefix; fields that its kind does not have are None."""

    kind: Kind
    slot: int | None = None
    incarnation: str | None = None
    round: int | None = None
    local_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Keys:
    """All keys of one job; `prefix` is P, without a slash at its end."""

    prefix: str

    @property
    def control(self) -> str:
        """Return the prefix that the leader watches."""
        return f"{self.prefix}/c/"

    @property
    def ctl(self) -> str:
        """Return the prefix that every agent watches in order: state, leader, runtime config, link secret."""
        return f"{self.prefix}/c/ctl/"

    @property
    def everything(self) -> str:
        """Return the prefix of all keys of the job; deleting them deletes the job."""
        return f"{self.prefix}/"

    @property
    def rendezvous_state(self) -> str:
        """Return the key of the rendezvous state."""
        return f"{self.prefix}/c/ctl/world"

    @property
    def leader(self) -> str:
        """Return the key of the elected leader; leased."""
        return f"{self.prefix}/c/ctl/closer"

    @property
    def runtime_config(self) -> str:
        """Return the key of the part of the spec that may change while workers run."""
        return f"{self.prefix}/c/ctl/terms"

    @property
    def link_secret(self) -> str:
        """Return the key of the secret with which agents authenticate each other on their links."""
        return f"{self.prefix}/c/ctl/link"

    @property
    def spec(self) -> str:
        """Return the key of the spec."""
        return f"{self.prefix}/c/spec"

    @property
    def expected(self) -> str:
        """Return the key of the slots whose pod the operator expects soon."""
        return f"{self.prefix}/c/expected"

    @property
    def members(self) -> str:
        """Return the key of the members of the last active round."""
        return f"{self.prefix}/c/members"

    @property
    def nodes(self) -> str:
        """Return the prefix of all node records."""
        return f"{self.prefix}/c/nodes/"

    @property
    def all_holdings(self) -> str:
        """Return the prefix of the holdings of all nodes."""
        return f"{self.prefix}/c/held/"

    @property
    def reports(self) -> str:
        """Return the prefix of all reports and samples."""
        return f"{self.prefix}/r/"

    def node(self, slot: int, incarnation: str) -> str:
        """Return the key of one session of one agent; leased."""
        return f"{self.prefix}/c/nodes/{slot:04x}.{incarnation}"

    def holdings(self, slot: int, incarnation: str) -> str:
        """Return the key of the parts of steps that one node has whole; leased."""
        return f"{self.all_holdings}{slot:04x}.{incarnation}"

    def tombstone(self, slot: int, incarnation: str) -> str:
        """Return the key of the record that this incarnation has ended, with the reason."""
        return f"{self.prefix}/c/gone/{slot:04x}.{incarnation}"

    @property
    def import_profile(self) -> str:
        """Return the key of the imports that the job's workers have in common."""
        return f"{self.prefix}/w/imports"

    @property
    def earlier_import_profile(self) -> str:
        """Return the key of the imports that the workers of an earlier job had."""
        return f"{self.prefix}/w/earlier"

    def report(self, slot: int, incarnation: str) -> str:
        """Return the key of the worker states of one agent; leased."""
        return f"{self.prefix}/r/{slot:04x}.{incarnation}"

    def samples(self, slot: int, incarnation: str) -> str:
        """Return the key of the newest samples of one agent; leased. Their changes alone are never urgent."""
        return f"{self.prefix}/r/{slot:04x}.{incarnation}/samples"

    def failure(self, round_: int, slot: int, local_rank: int) -> str:
        """Return the key of one worker's failure in a round."""
        return f"{self.prefix}/c/failures/{FailureKey(round_, slot, local_rank)}"

    def failures(self, round_: int) -> str:
        """Return the prefix of a round's failures."""
        return f"{self.prefix}/c/failures/{round_}/"

    def completion(self, round_: int, slot: int) -> str:
        """Return the key of the record that all workers of this member exited 0 in this round."""
        return f"{self.prefix}/c/done/{round_}/{slot:04x}"

    def completions(self, round_: int) -> str:
        """Return the prefix of a round's completions."""
        return f"{self.prefix}/c/done/{round_}/"

    def parse(self, key: str) -> ParsedKey | None:
        """Return the parsed `key`; None if it does not fit this layout (every reader ignores it)."""
        if not key.startswith(self.everything):
            return None
        rest = key[len(self.everything) :]
        if (kind := _SINGLES.get(rest)) is not None:
            return ParsedKey(kind)
        if (match := _MEMBER.fullmatch(rest)) and (kind := _MEMBERS.get(match[1] + match[4])) is not None:
            return ParsedKey(kind, slot=int(match[2], 16), incarnation=match[3])
        if rest.startswith(_FAILURES) and (failure := FailureKey.parse(rest[len(_FAILURES) :])) is not None:
            return ParsedKey("failure", slot=failure.slot, round=failure.round, local_rank=failure.local_rank)
        if match := _COMPLETION.fullmatch(rest):
            return ParsedKey("done", slot=int(match[2], 16), round=int(match[1]))
        return None


def job_prefix(*, cluster: str, namespace: str, name: str, uid: str) -> str:
    """Return P of a job that an operator owns; `cluster` is the uid of its kube-system namespace."""
    return f"{ROOT}/{cluster}/{namespace}/{name}/{uid}"


def kept_profiles(cluster: str) -> str:
    """Return the prefix of the import profiles that the operator of this cluster keeps."""
    return f"{ROOT}/imports/{cluster}/"


def kept_profile(cluster: str, namespace: str, namespace_uid: str, name: str) -> str:
    """Return the key of a profile that the operator keeps for later jobs of this namespace.

    The uid is in the key, so a re-created namespace never shares profiles with its predecessor.
    """
    return f"{kept_profiles(cluster)}{namespace}/{namespace_uid}/{name}"


def cli_prefix(run_id: str) -> str:
    """Return P of a job of the bare command line (`elasticjob-agent --rdzv-id`)."""
    return f"{ROOT}/cli/{run_id}"
