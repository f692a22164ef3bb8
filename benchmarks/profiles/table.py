"""A profile as text: a row for each layer, a column for each act, with its share; and stacks, a line each."""

from collections.abc import Collection, Mapping

LayerSeconds = Mapping[str, Mapping[str, float]]
"""Seconds by act and layer."""


def table(title: str, spent: LayerSeconds, *, beside: Collection[str] = ()) -> str:
    """Return the table, the largest of the first act first; `beside` are rows of another process, without a share."""
    first, *_ = spent.values()
    layers = sorted(
        {layer for used in spent.values() for layer in used} - set(beside), key=lambda name: -first.get(name, 0.0)
    )
    wholes = {act: sum(used.get(layer, 0.0) for layer in layers) for act, used in spent.items()}
    rows = [_row(layer, spent, wholes) for layer in layers]
    rows += ["", f"{'together':<32}" + "".join(f"{wholes[act]:>18.3f}" + " " * 6 for act in spent)]
    rows += [_row(name, spent, {}) for name in beside]
    head = f"{'':<32}" + "".join(f"{act:>18}" + " " * 6 for act in spent)
    return "\n".join(row.rstrip() for row in [title, "", head, *rows])


def _row(layer: str, spent: LayerSeconds, wholes: Mapping[str, float]) -> str:
    cells = []
    for act, used in spent.items():
        share = f"{100 * used.get(layer, 0.0) / wholes[act]:4.0f} %" if wholes.get(act) else " " * 6
        cells.append(f"{used.get(layer, 0.0):>18.3f}{share}")
    return f"{layer:<32}" + "".join(cells)


def collapsed(stacks: Mapping[str, int]) -> str:
    """Return a line for each stack with its microseconds, the largest first: the input of flame graphs."""
    return "".join(f"{stack} {used_us}\n" for stack, used_us in sorted(stacks.items(), key=lambda each: -each[1]))
