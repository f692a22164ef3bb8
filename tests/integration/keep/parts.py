"""Volumes with parts, as scripts and peers make them."""

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from elasticjob_agent.keep.volume.paths import KeptPart
from elasticjob_agent.keep.volume.receipt import Receipt
from elasticjob_agent.keep.volume.volume import Volume
from elasticjob_api.kept_steps import KeptStep, Lineage

LINEAGE = Lineage(3, "abc123")
FILES = {"state.pt": b"weights", "sub/more": b""}


def part_of(number: int, index: int = 0, parts: int = 1, lineage: Lineage = LINEAGE) -> KeptPart:
    """Return one part."""
    return KeptPart(KeptStep(lineage, number, parts), index)


def write_files(directory: Path, files: Mapping[str, bytes]) -> Path:
    """Write these files below a new directory; return it."""
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    return directory


def publish(incoming: Path, name: str, files: Mapping[str, bytes] = FILES) -> None:
    """Publish as a script does: write in another directory, then rename."""
    write_files(incoming / f"tmp.{name}", files).rename(incoming / name)


def take(volume: Volume, part: KeptPart, files: Mapping[str, bytes] = FILES) -> bool:
    """Publish one part and take it."""
    name = f"step-{part.step.number}.{part.index}-of-{part.step.parts}"
    publish(volume.begin_round(part.step.lineage), name, files)
    return volume.take(name, part)


def offer(volume: Volume, part: KeptPart, files: Mapping[str, bytes] = FILES) -> Receipt:
    """Return the receipt of a part that a peer offers."""
    return volume.receive_part(part.step, part.index, [(name, len(data)) for name, data in files.items()])


def receive(volume: Volume, part: KeptPart, files: Mapping[str, bytes] = FILES) -> bool:
    """Receive a whole part; return whether it is held."""
    receipt = offer(volume, part, files)
    for number, data in enumerate(files.values()):
        receipt.write(number, data[receipt.offsets[number] :])
    return receipt.finish(crcs(files.values()))


def crcs(files: Iterable[bytes]) -> list[int]:
    """Return the checksum of each."""
    return [zlib.crc32(data) for data in files]


def contents(directory: Path) -> dict[str, bytes]:
    """Return all files below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }
