"""Numbers with their nouns, for messages."""


def pluralize(count: int, noun: str) -> str:
    """Return a text such as `1 node` or `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def node_count_text(count: int) -> str:
    """Return a text such as `1 node` or `2 nodes`."""
    return pluralize(count, "node")
