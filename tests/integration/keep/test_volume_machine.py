"""Random histories of a volume, compared with a model: the held parts, their contents and their origin."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from elasticjob_agent.keep.volume.errors import PartExists, PartMissing
from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.receipt import Receipt
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.kept_steps import Lineage
from tests.integration.keep.conftest import memory
from tests.integration.keep.parts import contents, crcs, offer, part_of, publish

LINEAGES = [Lineage(3, "a"), Lineage(4, "b")]
PARTS = st.builds(part_of, st.integers(0, 4), st.integers(0, 1), st.just(2), st.sampled_from(LINEAGES))


def files_of(part: KeptPart) -> dict[str, bytes]:
    """Return the files of a part: the same for each origin, as a part is named by its contents."""
    return {f"{part.index}/{part}": bytes(str(part), "ascii") * 50, f"empty-{part.index}": b""}


class VolumeMachine(RuleBasedStateMachine):
    """A volume, its keeper's restarts, a script and peers."""

    @initialize()
    def open_first(self) -> None:
        self.above = Path(tempfile.mkdtemp(prefix="keep-", dir=memory()))
        self.held: dict[KeptPart, bool] = {}
        self.highest: dict[tuple[Lineage, int], int] = {}
        self.receipts: dict[KeptPart, Receipt] = {}
        self.round = LINEAGES[0]
        self.open()

    def open(self) -> None:
        self.volume = Volume(self.above / "volume", job="/jobs/a", run="run1")

    @rule(part=PARTS)
    def take(self, part: KeptPart) -> None:
        lineage = part.step.lineage
        if lineage.round < self.round.round:
            return
        self.round = lineage
        name = f"step-{part.step.number}.{part.index}-of-2"
        publish(self.volume.begin_round(lineage), name, files_of(part))
        is_new = part.step.number > self.highest.get((lineage, part.index), -1)
        assert self.volume.take(name, part) == is_new
        if is_new:
            self.highest[lineage, part.index] = part.step.number
            self.held[part] = True

    @rule(part=PARTS, count=st.integers(0, 300))
    def receive(self, part: KeptPart, count: int) -> None:
        if part not in self.receipts:
            if part in self.held:
                with pytest.raises(PartExists):
                    offer(self.volume, part, files_of(part))
                return
            self.receipts[part] = offer(self.volume, part, files_of(part))
        receipt = self.receipts[part]
        (data, _) = files_of(part).values()
        receipt.write(0, data[receipt.offsets[0] :][:count])

    @rule(part=PARTS)
    def finish(self, part: KeptPart) -> None:
        if receipt := self.receipts.get(part):
            is_complete = not receipt.missing_bytes
            assert receipt.finish(crcs(files_of(part).values())) == is_complete
            if is_complete:
                del self.receipts[part]
                self.held.setdefault(part, False)

    @rule(part=PARTS)
    def drop(self, part: KeptPart) -> None:
        if part not in self.receipts:
            self.volume.drop([part])
            self.held.pop(part, None)

    @rule(part=PARTS)
    def restore(self, part: KeptPart) -> None:
        if part in self.held:
            assert contents(self.volume.link(part.step, [part.index])) == files_of(part)
        else:
            with pytest.raises(PartMissing):
                self.volume.link(part.step, [part.index])

    @rule(is_tidy=st.booleans())
    def restart(self, is_tidy: bool) -> None:  # noqa: FBT001
        for receipt in self.receipts.values() if is_tidy else ():
            receipt.close()
        self.receipts.clear()
        self.volume.close()
        self.open()

    @rule()
    def delete(self) -> None:
        self.volume.trash.empty()
        assert list((self.above / "volume" / "trash").iterdir()) == []

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if hasattr(self, "volume"):
            found = self.volume.parts()
            assert {part: manifest.is_own for part, manifest in found.items()} == self.held
            assert sum(map(len, self.volume.holdings().values())) == len(self.held)
            for part in found:
                assert contents(self.volume.open_part(part.step, part.index).path) == files_of(part)

    def teardown(self) -> None:
        if hasattr(self, "volume"):
            self.volume.close()
            shutil.rmtree(self.above)


TestVolume = VolumeMachine.TestCase
TestVolume.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
