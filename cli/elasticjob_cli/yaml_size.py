"""The size of a YAML document with its aliases expanded: a few hundred bytes may be billions of values."""

import yaml

from elasticjob_cli.errors import InvalidManifest

MOST_VALUES = 100_000
"""The most values of a document: far more than a manifest has; an API server accepts 1.5 MiB."""


def check_size(name: str, document: yaml.Node) -> None:
    """Raise InvalidManifest for a document that has too many values, or that contains itself."""
    try:
        values = _values(document, {})
    except RecursionError as error:
        raise InvalidManifest(f"{name}: an alias makes a part of it contain itself; remove that alias") from error
    if values > MOST_VALUES:
        raise InvalidManifest(
            f"{name}: has {values:,} values with its aliases expanded, of at most {MOST_VALUES:,}; use fewer aliases"
        )


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values in this node and below, each as often as it is aliased."""
    # `known` has 0 for a node that is still being counted.
    if isinstance(node, yaml.ScalarNode):
        return 1
    if (values := known.get(id(node))) == 0:
        raise RecursionError
    if values is None:
        known[id(node)] = 0
        pairs = node.value if isinstance(node, yaml.MappingNode) else [(each,) for each in node.value]
        values = known[id(node)] = 1 + sum(_values(each, known) for pair in pairs for each in pair)
    return values
