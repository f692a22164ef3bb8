"""The nodes and ranks of the live view, in as many lines as there is room for.

Few nodes are a table, with cpu and memory of each rank below it. Many nodes are a map with one letter for each rank,
in rank order. Below it are the nodes that do not run, and the usage of the others as a map with a bar for each rank.
Without room for these maps, only the extremes are shown, with their names.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from elasticjob_cli.terminal import Style
from elasticjob_cli.views.rank_map import GLYPHS, STYLES, level_map, rank_map
from elasticjob_cli.views.start_text import start_cell
from elasticjob_cli.views.styled_line import StyledLine, plain
from elasticjob_cli.views.text import pluralize, size
from elasticjob_cli.views.usage import RankUsage, Usage, outliers, rank_usages, usage_levels, usages

_MOST_MISSING = 6
"""Lines for nodes that do not run, before the usage of the others gets the room."""
_GAP = 3
"""Columns between two cells of ranks."""

_Node = Mapping[str, Any]


def node_lines(status: Mapping[str, Any], measured: Mapping[str, Usage], room: int, width: int) -> Iterator[StyledLine]:
    """Yield about `room` lines of at most `width` columns; `measured` is by pod, from a metrics server."""
    nodes: Sequence[_Node] = sorted(status.get("nodes") or (), key=_by_rank)
    used = usages(nodes, measured)
    ranks = rank_usages(nodes, used)
    if not nodes:
        return
    yield plain("")
    if len(nodes) + 2 <= room:
        yield from _table(nodes, used, width)
        if len(ranks) > sum(node.get("rank") is not None for node in nodes):  # else each node is a rank
            yield from _each_rank(ranks, room - 2 - len(nodes), width)
        return
    letters = [StyledLine(pieces) for pieces in rank_map(nodes, width=width)]
    missing = [node for node in nodes if node.get("state") not in {"Running", "Succeeded"}]
    room_of_use = room - 1 - len(letters) - min(len(missing), _MOST_MISSING)
    use = _used_by_ranks(ranks, room_of_use, width) if ranks else _used_by_nodes(nodes, used, room_of_use, width)
    yield from letters
    yield from _away(missing, max(0, room - 2 - len(letters) - len(use)))
    yield from use
    if status.get("nodesTruncated"):
        yield plain(f"(the status has room for {len(nodes)} nodes only)", Style.DIM)


def _by_rank(node: _Node) -> tuple[bool, int]:
    rank = node.get("rank")
    return rank is None, int(rank or 0)


# Many nodes.


def _away(missing: Sequence[_Node], room: int) -> Iterator[StyledLine]:
    """Yield the nodes that do not run, failed ones first, and the number of the others."""
    shown = sorted(missing, key=lambda node: node.get("state") != "Failed")[:room]
    yield from (plain(_missing(node), Style.WARN) for node in shown)
    if len(missing) > len(shown):
        rest = pluralize(len(missing) - len(shown), "more node" if shown else "node")
        yield plain(f"and {rest} not running" if shown else f"{rest} not running", Style.WARN)


def _missing(node: _Node) -> str:
    where = f" on {node['nodeName']}" if node.get("nodeName") else ""
    why = f": {node['reason']}" if node.get("reason") else ""
    return f"{node.get('podName')}{where} {str(node.get('state') or 'Unknown').lower()}{why}"


def _used_by_ranks(ranks: Sequence[RankUsage], room: int, width: int) -> list[StyledLine]:
    """Return the extremes, with their pods if the line has room for them."""
    heads = outliers({f"rank {each.rank} in {each.pod}": each.usage for each in ranks}, "rank")
    if max(map(len, heads), default=0) > width:
        heads = outliers({f"rank {each.rank}": each.usage for each in ranks}, "rank")
    return _used(heads, [each.usage for each in ranks], room, width)


def _used_by_nodes(nodes: Sequence[_Node], used: Mapping[str, Usage], room: int, width: int) -> list[StyledLine]:
    return _used(outliers(used, "node"), [used[str(node.get("podName"))] for node in nodes], room, width)


def _used(heads: Sequence[str], each: Sequence[Usage], room: int, width: int) -> list[StyledLine]:
    """Return a line each for cpu and memory, with a map of all below it if the terminal is tall enough."""
    if not heads:
        return []
    maps = [
        [StyledLine(pieces) for pieces in level_map(usage_levels(found), width=width)]
        for found in ([use.cpu_percent for use in each], [use.memory_bytes for use in each])
    ]
    if len(heads) + sum(map(len, maps)) > room:
        return [*map(plain, heads)]
    return [line for head, lines in zip(heads, maps, strict=True) for line in (plain(head), *lines)]


# Few nodes.

_HEAD = ("RANKS", "POD", "NODE", "STATE", "START", "CPU", "MEMORY", "", "REASON")
_NODE, _START, _LETTERS = _HEAD.index("NODE"), _HEAD.index("START"), _HEAD.index("")
_LEFT_OUT = -2
"""Width of a column that is not shown; two spaces follow each column."""


def _table(nodes: Sequence[_Node], used: Mapping[str, Usage], width: int) -> Iterator[StyledLine]:
    rows: list[tuple[str, ...]] = [_HEAD]
    first = 0
    for node in nodes:
        letters = str(node.get("ranks") or "")
        ranks = "-" if node.get("rank") is None else f"{first}-{first + len(letters) - 1}"
        first += 0 if node.get("rank") is None else len(letters)
        ranks = ranks if len(letters) != 1 else ranks.partition("-")[0] or "-"
        identity = (str(node.get("podName") or "-"), str(node.get("nodeName") or "-"), str(node.get("state") or "-"))
        use = _words(used.get(str(node.get("podName")), Usage()))
        rows.append((ranks, *identity, start_cell(node), *use, letters, str(node.get("reason") or "")))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if not any(node.get("start") for node in nodes):  # warm start is off
        widths[_START] = _LEFT_OUT
    if sum(widths) + 2 * len(widths) > width:
        widths[_NODE] = _LEFT_OUT  # the pod is more useful
    for row in rows:
        yield StyledLine(_cells(row, widths, head=row is rows[0]))


def _words(use: Usage) -> tuple[str, str]:
    cpu = "-" if use.cpu_percent is None else f"{use.cpu_percent:.0f}%"
    return cpu, "-" if use.memory_bytes is None else size(use.memory_bytes)


def _cells(row: Sequence[str], widths: Sequence[int], *, head: bool) -> list[tuple[str, Style]]:
    pieces: list[tuple[str, Style]] = []
    for index, (cell, room) in enumerate(zip(row, widths, strict=True)):
        if room < 0:
            continue
        if head:
            pieces.append((cell.ljust(room + 2), Style.DIM))
        elif index == _LETTERS:
            pieces += [(GLYPHS.get(letter, letter), STYLES.get(letter, Style.PLAIN)) for letter in cell]
            pieces.append((" " * (room + 2 - len(cell)), Style.PLAIN))
        else:
            pieces.append((cell.ljust(room + 2), Style.WARN if index == len(row) - 1 else Style.PLAIN))
    return pieces


def _each_rank(ranks: Sequence[RankUsage], room: int, width: int) -> list[StyledLine]:
    """Return every rank with its cpu and memory in columns; if they do not fit, the usage as for many nodes."""
    words = [(str(each.rank), *_words(each.usage)) for each in ranks]
    heads = ("RANK", "CPU", "MEMORY")
    of_rank, of_cpu, of_memory = (max(map(len, column)) for column in zip(heads, *words, strict=True))
    columns = max(1, (width + _GAP) // (of_rank + of_cpu + of_memory + 4 + _GAP))
    lines = -(-len(ranks) // columns)
    if lines + 2 > room:
        return _used_by_ranks(ranks, room, width)
    columns = -(-len(ranks) // lines)
    head = f"{heads[0]:>{of_rank}}   {heads[1]:>{of_cpu}} {heads[2]:>{of_memory}}"
    made = [plain(""), plain((" " * _GAP).join([head] * columns), Style.DIM)]
    for first in range(lines):  # down, then to the right, as in ls
        pieces: list[tuple[str, Style]] = []
        for each, (rank, cpu, memory) in zip(ranks[first::lines], words[first::lines], strict=True):
            glyph = (GLYPHS.get(each.letter, each.letter), STYLES.get(each.letter, Style.PLAIN))
            gap = " " * _GAP if pieces else ""
            use = f" {cpu:>{of_cpu}} {memory:>{of_memory}}"
            pieces += [(f"{gap}{rank:>{of_rank}} ", Style.PLAIN), glyph, (use, Style.PLAIN)]
        made.append(StyledLine(pieces))
    return made
