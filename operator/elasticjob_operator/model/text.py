"""PURE: numbers with their nouns, for sentences that people read."""


def pluralize(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def node_count_text(count: int) -> str:
    """`1 node`, `2 nodes`."""
    return pluralize(count, "node")
