"""Print the options of torchrun's own parser; run it with a Python that has torch.

    PYTHON_OF_TORCH tests/torch/save_torchrun_options.py > tests/unit/agent/cli/torchrun_options.json

The output contains torch's version and is committed, so that the comparison with our options needs no torch.
"""

import argparse
import json
import sys
from typing import Any


def described(action: argparse.Action) -> dict[str, Any]:
    """Return one option of an argparse parser as plain data."""
    return {
        "spellings": sorted(action.option_strings),
        "dest": action.dest,
        "default": action.default,
        "takes_value": action.nargs != 0,
        "choices": sorted(action.choices) if action.choices else None,
        "from_environment": type(action).__name__ in {"env", "check_env"},
    }


def main() -> None:
    """Print the options, sorted by name."""
    import torch  # noqa: PLC0415  # only here: tools without torch read this file
    from torch.distributed.run import get_args_parser  # noqa: PLC0415

    actions = [a for a in get_args_parser()._actions if a.option_strings and a.dest != "help"]
    options = sorted((described(action) for action in actions), key=lambda option: str(option["dest"]))
    version = torch.__version__.partition("+")[0]
    json.dump({"torch": version, "options": options}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
