"""PURE: how much a YAML document stands for once its aliases are written out: a few hundred bytes may be billions."""

import yaml

from elasticjob_cli.errors import InvalidManifest

MOST_VALUES = 100_000
"""Far more than any manifest has; an API server takes 1.5 MiB."""


def check_size(name: str, document: yaml.Node) -> None:
    """Raise InvalidManifest for a document that stands for too much, or that contains itself."""
    try:
        values = _values(document, {})
    except RecursionError as error:
        raise InvalidManifest(f"{name}: is not YAML that a manifest may use: a part of it contains itself") from error
    if values > MOST_VALUES:
        raise InvalidManifest(
            f"{name}: with its aliases written out it has {values:,} values, of at most {MOST_VALUES:,}; use fewer"
        )


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """Values in this node and below, each as often as it is aliased; `known` has 0 for a node that is not ended yet."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if (values := known.get(id(node))) == 0:
        raise RecursionError
    if values is None:
        known[id(node)] = 0
        pairs = node.value if isinstance(node, yaml.MappingNode) else [(each,) for each in node.value]
        values = known[id(node)] = 1 + sum(_values(each, known) for pair in pairs for each in pair)
    return values
