"""apply wire|names|moves|contracts|documents|check|leftovers [SECTION…]: see README.md."""

import sys
from collections.abc import Callable

from hack.rename import contracts, documents, moves, names, wire

STEPS: dict[str, Callable[[tuple[str, ...]], int]] = {
    "wire": lambda _: wire.apply(),
    "names": names.apply,
    "moves": moves.apply,
    "contracts": lambda _: contracts.apply(),
    "check": names.check,
    "documents": lambda _: documents.apply(),
    "leftovers": lambda _: moves.show_leftovers(),
}


def main() -> int:
    """Run one step; return 1 if a place could not be decided."""
    if len(sys.argv) < 2 or sys.argv[1] not in STEPS:  # noqa: PLR2004
        sys.exit(f"usage: hack/rename/apply {'|'.join(STEPS)} [SECTION…]")
    step, *sections = sys.argv[1:]
    return 1 if STEPS[step](tuple(sections)) else 0


if __name__ == "__main__":
    sys.exit(main())
