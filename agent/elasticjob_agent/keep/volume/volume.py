"""The volume of one node: the parts that it holds, and every change of them.

Threads of transfers use it beside the keeper's main thread. One lock guards the bookkeeping; it is never held while
data is copied. Each change is one rename, so the directories are whole after any end of the process.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from elasticjob_agent.keep.volume import collisions, linking, root_dir, scanning, shared_names, space
from elasticjob_agent.keep.volume.errors import (
    PartChangedError,
    PartExists,
    PartMissing,
    VolumeFullError,
    translated,
)
from elasticjob_agent.keep.volume.held_part import HeldPart
from elasticjob_agent.keep.volume.held_sums import HeldSums
from elasticjob_agent.keep.volume.incoming_dir import incoming_lineages, make_incoming, published_names
from elasticjob_agent.keep.volume.manifest import Manifest, write_manifest
from elasticjob_agent.keep.volume.part_limits import PartLimits
from elasticjob_agent.keep.volume.paths import KeptPart, VolumePath
from elasticjob_agent.keep.volume.pinned_parts import PinnedParts
from elasticjob_agent.keep.volume.published import PublishedSteps
from elasticjob_agent.keep.volume.published_batch import PublishedBatch
from elasticjob_agent.keep.volume.receipt import Receipt
from elasticjob_agent.keep.volume.script_errors import ScriptErrors
from elasticjob_agent.keep.volume.trash import TrashDir
from elasticjob_agent.keep.volume.trees import list_files, temporary_of
from elasticjob_agent.keep.volume.volume_record import VolumeRecord, read_record, write_record
from elasticjob_api.kept_steps import Holdings, KeptStep, Lineage

Report = Callable[[str], None]
"""Called with a sentence for users: a part was refused, withdrawn or collides."""
_LOCK_WAIT_S = 5.0


class Volume:
    """The parts in one directory; only one keeper at a time uses it."""

    def __init__(
        self,
        root: Path,
        *,
        job: str,
        run: str = "",
        size_limit: int | None = None,
        workers_mode: int = 0o700,
        report: Report = lambda _: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the volume of this job and scan it; delete what belongs to another job or run.

        `run` is empty if it is not known yet. `size_limit` is in bytes, for a directory without a limit of its own.
        `workers_mode` is the mode of the directory in which scripts publish. `on_change` is called from any thread when
        the holdings have changed.

        Raises:
            VolumeUnavailable: the directory cannot be used.
            VolumeError: it cannot be read.
        """
        self._paths = VolumePath(root)
        self._size_limit = size_limit
        self._workers_mode = workers_mode
        self._report = report
        self._on_change = on_change
        self._lock = threading.Lock()
        self._linking = threading.Lock()
        """One thread at a time links a step for the workers."""
        self._receipts: dict[KeptPart, Receipt] = {}
        self._published: dict[Lineage, PublishedSteps] = {}
        self._held: dict[KeptPart, Manifest] = {}
        self.sums = HeldSums.of(self._held)
        """The sums of what is held; it is replaced, never changed: threads read it."""
        self._record = VolumeRecord(job, run)
        self.trash = TrashDir(self._paths.trash)
        self.conflicts = collisions.Conflicts(report)
        self.script_errors = ScriptErrors(report)
        self.pins = PinnedParts(self._paths, self.trash)
        self._lock_fd = root_dir.lock_root(root, _LOCK_WAIT_S, is_shared=bool(workers_mode & 0o077))
        try:
            root_dir.make_directories(self._paths)
            self.limits = PartLimits(space.volume_bytes(root, size_limit))
            self._open_record(read_record(self._paths.record))
            self.pins.clear()
            self._held = scanning.scan_held(self._paths, self.trash, self.limits, report)
            self.sums = HeldSums.of(self._held)
            self.conflicts.note_found(self._held)
            scanning.scan_receipts(self._paths, self.trash, self._held)
        except BaseException:
            self.close()
            raise

    @property
    def run(self) -> str:
        """The run that all parts belong to; empty if none is known."""
        return self._record.run

    @property
    def root(self) -> Path:
        """The directory of the volume."""
        return self._paths.root

    def adopt_run(self, run: str) -> None:
        """Delete everything if it belongs to another run; raise VolumeError."""
        if run != self.run:
            with self._changing():
                if self.run:
                    self._erase()
                record = VolumeRecord(self._record.job, run)
                write_record(self._paths.record, record, self.trash)
                self._record = record  # not before: the next keeper deletes what is here if it finds another run

    def close(self) -> None:
        """Release the directory for another keeper."""
        os.close(self._lock_fd)

    # --- what is held ------------------------------------------------------------------------------------------------

    def holdings(self) -> Holdings:
        """Return the indices of the parts of each step that are here and whole."""
        return self.sums.holdings

    def parts(self) -> Mapping[KeptPart, Manifest]:
        """Return the manifest of each held part."""
        with self._lock:
            return dict(self._held)

    def open_part(self, step: KeptStep, index: int) -> HeldPart:
        """Return a held part for reading; raise PartMissing."""
        part = KeptPart(step, index)
        with self._lock:
            if part not in self._held:
                raise PartMissing(f"part {part} is not held")
            return HeldPart(part, self._paths.part(part), self._held[part])

    def confirm(self, held: HeldPart, crcs: Sequence[int] | None = None) -> bool:
        """Return whether the part is as it was published, after a copy of it; withdraw it if not.

        `crcs` are the checksums of what was copied; the first ones become those of the manifest.
        """
        crcs = None if crcs is None else tuple(crcs)
        if not held.is_unchanged() or (held.crcs is not None and crcs not in {None, held.crcs}):
            self.withdraw(held.part, "a file has changed after the part was published")
            return False
        if crcs is not None and held.crcs is None:
            self._record_crcs(held.part, crcs)
        return True

    def _record_crcs(self, part: KeptPart, crcs: Sequence[int]) -> None:
        with self._lock:
            if part in self._held:
                self._held[part] = self._held[part].with_crcs(crcs)
                write_manifest(self._paths.manifest(part), self._held[part], self.trash)
                self.conflicts.note([part], self._held)

    # --- publishing --------------------------------------------------------------------------------------------------

    def begin_round(self, lineage: Lineage) -> Path:
        """Return the directory in which the script of this round publishes; those of other rounds go.

        Raises:
            VolumeError: it cannot be created.
        """
        with self._lock:
            make_incoming(self._paths, self.trash, lineage, self._workers_mode)
            scanning.remove_empty_lineages(
                self._paths, self.trash, {part.step.lineage for part in self._held} | {lineage}
            )
        return self._paths.incoming_of(lineage)

    def end_round(self, lineage: Lineage) -> None:
        """Throw away the directory of a round whose workers are reaped; raise VolumeError."""
        with self._lock:
            self.trash.throw_away(self._paths.incoming_of(lineage))

    def incoming_lineages(self) -> list[Lineage]:
        """Return the rounds that have a directory to publish in: one, unless a keeper has just begun."""
        return incoming_lineages(self._paths)

    def published_names(self, lineage: Lineage) -> list[str]:
        """Return the names that the script has published and that are not taken yet; raise VolumeError."""
        return published_names(self._paths.incoming_of(lineage))

    def take(self, name: str, part: KeptPart) -> bool:
        """Take what was published under this name; return whether it is held now. A refused one is deleted."""
        return part in self.take_step([(part, name)])

    def take_step(self, names: Sequence[tuple[KeptPart, str]]) -> list[KeptPart]:
        """Take these parts of one step, published under these names; return those that are held now."""
        step = names[0][0].step
        incoming = self._paths.incoming_of(step.lineage)
        with self._changing():
            batch = self._batch(step)
            taken = [part for part, name in names if batch.take(incoming / name, part)]
            if taken:
                batch.end(taken)
        return taken

    def skip_step(self, names: Sequence[tuple[KeptPart, str]]) -> None:
        """Throw away these parts of one step, published under these names: it is committed, or too old."""
        step = names[0][0].step
        with self._lock:
            batch = self._batch(step)
            for part, name in names:
                batch.skip(self._paths.incoming_of(step.lineage) / name, part)

    def _batch(self, step: KeptStep) -> PublishedBatch:
        return PublishedBatch(
            step,
            self._paths,
            self.trash,
            self.limits,
            self._held,
            self._published_in(step.lineage),
            self.conflicts,
            self.script_errors,
            self._report,
        )

    def published_in(self, lineage: Lineage) -> PublishedSteps:
        """Return what was published here in a lineage; only that of one lineage is remembered."""
        with self._lock:
            return self._published_in(lineage)

    def _published_in(self, lineage: Lineage) -> PublishedSteps:
        if lineage not in self._published:
            own = [part for part, manifest in self._held.items() if part.step.lineage == lineage and manifest.is_own]
            self._published = {lineage: PublishedSteps(self._paths, lineage, own, self.trash)}
        return self._published[lineage]

    # --- receiving ---------------------------------------------------------------------------------------------------

    def receive_part(self, step: KeptStep, index: int, files: Sequence[tuple[str, int]]) -> Receipt:
        """Return the receipt of a part that a peer offers, with what is there of it already.

        Raises:
            PartExists: it is held, or another transfer of it is in progress.
            PartRefused: the names or sizes of its files break a rule.
            VolumeFullError: there is no room for it.
            VolumeError: it cannot be created.
        """
        part = KeptPart(step, index)
        with self._lock:
            if part in self._held or part in self._receipts:
                raise PartExists(f"part {part} is {'held' if part in self._held else 'being received'} already")
            receipt = Receipt(
                self._paths.receipt(part), part, files, trash=self.trash, hold=self._hold, release=self._release
            )
            if receipt.missing_bytes > self._free_bytes():
                raise VolumeFullError(f"part {part} needs {receipt.missing_bytes} bytes; {self._free_bytes()} are free")
            self._receipts[part] = receipt
        return receipt

    def _hold(self, receipt: Receipt, crcs: Sequence[int | None]) -> None:
        """Make a complete receipt a held part."""
        part, path = receipt.part, self._paths.part(receipt.part)
        with self._changing(), translated(f"cannot hold {part}"):
            self._receipts.pop(part, None)
            if part in self._held:  # the script of this node has published it meanwhile
                self.trash.throw_away(receipt.path)
                return
            known = dict(zip((name for name, _ in receipt.files), crcs, strict=True))
            manifest = Manifest.of(list_files(receipt.path), is_own=False)
            path.parent.mkdir(parents=True, exist_ok=True)
            receipt.path.rename(path)
            self._held[part] = manifest.with_crcs([known[file.name] for file in manifest.files])
            write_manifest(self._paths.manifest(part), self._held[part], self.trash)
            shared_names.note_conflicts(self.conflicts, self._paths, [part], self._held)

    def partial_parts(self) -> set[KeptPart]:
        """Return the parts of which something has arrived; raise VolumeError."""
        with self._lock:
            return scanning.scan_receipts(self._paths, self.trash, self._held)

    def _release(self, receipt: Receipt) -> None:
        with self._lock:
            if self._receipts.get(receipt.part) is receipt:
                del self._receipts[receipt.part]

    # --- restoring ---------------------------------------------------------------------------------------------------

    def link(self, step: KeptStep, indices: Iterable[int]) -> Path:
        """Return a directory with the files of these parts of a step.

        Raises:
            PartMissing: one is not held.
            PartsCollideError: two have different files of one name.
            PartChangedError: a file has changed after it was published; the part is withdrawn.
            VolumeError: the directory cannot be made.
        """
        held = {each.part: each for each in (self.open_part(step, index) for index in sorted(indices))}
        for part, each in held.items():
            if not each.is_unchanged():
                self.withdraw(part, "a file has changed after the part was published")
                raise PartChangedError(f"a file of part {part} has changed after it was published")
        manifests = {part: each.manifest for part, each in held.items()}
        with self._linking:
            return linking.link_parts(self._paths, self.trash, manifests, self._paths.kept_step(step))

    def unlink_dropped(self) -> None:
        """Throw away the links for workers to steps that are not held any more: only they keep memory.

        Raises:
            VolumeError: they cannot be read.
        """
        scanning.throw_away_others(self._paths.kept, self.trash, {str(step) for step in self.holdings()})

    # --- ends --------------------------------------------------------------------------------------------------------

    def drop(self, parts: Iterable[KeptPart]) -> None:
        """Drop held parts, and what was received of them; raise VolumeError."""
        with self._changing():
            for part in parts:
                self._drop(part)

    def withdraw(self, part: KeptPart, why: str) -> None:
        """Drop a part that is not whole any more, and report why; raise VolumeError."""
        with self._changing():
            if part in self._held:
                self._report(f"part {part} is withdrawn: {why}")
                self._drop(part)

    def drop_partial(self) -> None:
        """Throw away what has arrived of parts that no transfer receives at present; raise VolumeError."""
        with self._lock:
            scanning.throw_away_others(self._paths.partial, self.trash, set(map(str, self._receipts)))

    def erase(self) -> None:
        """Delete everything of the volume, and the directory if nothing else is in it; raise VolumeError."""
        with self._changing():
            self._erase()
        self.trash.empty()
        root_dir.remove_directories(self._paths)

    def _drop(self, part: KeptPart) -> None:
        # The directory goes first: a manifest without a directory is nothing, the opposite is a whole part.
        self.trash.throw_away(self._paths.part(part))
        self.trash.throw_away(self._paths.receipt(part))
        self._held.pop(part, None)
        with contextlib.suppress(OSError):
            self._paths.manifest(part).unlink()
        with contextlib.suppress(OSError):
            self._paths.part(part).parent.rmdir()

    # --- room --------------------------------------------------------------------------------------------------------

    def free_bytes(self, *, with_incoming: bool = False) -> int:
        """Return the room for further parts once the trash is deleted, see `space.room_in`; raise VolumeError."""
        with self._lock:
            return self._free_bytes(with_trash=True, with_incoming=with_incoming)

    def used_bytes(self) -> int:
        """Return the bytes of all parts that are held, being received or being deleted."""
        with self._lock:
            known = self._coming_bytes() + self.sums.size
        return known + space.used_bytes([self._paths.partial, self._paths.trash])

    def _free_bytes(self, **counted: bool) -> int:
        return max(0, space.room_in(self._paths, self._size_limit, **counted) - self._coming_bytes())

    def _coming_bytes(self) -> int:
        return sum(receipt.missing_bytes for receipt in self._receipts.values())

    # --- inside ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock; call `on_change` afterwards if other parts are held than before."""
        with self._lock:
            before = self.sums.holdings
            try:
                yield
            finally:
                self.sums = HeldSums.of(self._held)
                has_changed = before != self.sums.holdings
        if has_changed:
            self._on_change()

    def _open_record(self, found: VolumeRecord | None) -> None:
        """Delete everything if the record on disk names another job or run; write what counts now."""
        self.trash.throw_away(temporary_of(self._paths.record))
        if found is not None and found.is_of(self._record):
            self._record = VolumeRecord(found.job, self._record.run or found.run)
        else:
            self._erase()
            self.trash.throw_away(self._paths.record)
        if found != self._record:
            write_record(self._paths.record, self._record, self.trash)

    def _erase(self) -> None:
        for name in ("in", "held", "part", "kept", "persist"):
            self.trash.throw_away(self._paths.root / name)
        root_dir.make_directories(self._paths)
        self._held = {}
        self._published = {}
