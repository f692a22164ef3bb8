"""Scripts as users write them have the same output cold and warm under `elasticjob run`; the status has the kind."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testing.waiting import eventually
from tests.integration.cli.runs import Cli
from tests.integration.cli.test_warm_start import order, start_of, started

_DEADLINE_S = 120.0
_MOST_ROUNDS = 20
_ORDERS = """
import os, pathlib, signal, sys, time

def finish(*values):
    lines = [repr(each) for each in values]
    new = pathlib.Path("new-{RANK}".format(**os.environ))
    new.write_text("\\n".join(lines))
    new.rename("result-{ELASTICJOB_ROUND}-{RANK}".format(**os.environ))
    print("up", flush=True)
    order = pathlib.Path("order-" + os.environ["ELASTICJOB_ROUND"])
    while not order.exists():
        time.sleep(0.02)
    if order.read_text() == "end":
        sys.exit()
    if os.environ["LOCAL_RANK"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
"""


@dataclass(frozen=True)
class Script:
    """One program of a user."""

    name: str
    files: dict[str, str]
    words: tuple[str, ...] = ("train.py",)
    installed: dict[str, str] = field(default_factory=dict)
    """Modules of the image, by file."""
    cold_reason: str = ""
    """Why all its workers start cold; empty if they start warm."""


SCRIPTS = [
    Script(
        "arguments and a package beside it",
        {
            "train.py": """
import argparse, json, random
from model.layers import Layer
from orders import finish
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--name", required=True)
options = parser.parse_args()
random.seed(1)
finish(parser.prog, vars(options), Layer(3), Layer.__module__, __name__, __file__, random.random())
""",
            "model/__init__.py": "import decimal\nSCALE = decimal.Decimal('1.50')\n",
            "model/layers.py": """
from dataclasses import dataclass
from . import SCALE

@dataclass
class Layer:
    size: int
    scale: object = SCALE
""",
        },
        ("train.py", "--rate", "0.5", "--name", "a b"),
    ),
    Script(
        "a configuration in the working directory",
        {
            "train.py": """
import decimal
from settings import CONFIG, HERE
from orders import finish
finish(CONFIG, HERE)
""",
            "settings.py": """
import configparser, os, tomllib
HERE = os.getcwd()
with open("config.toml", "rb") as file:
    CONFIG = tomllib.load(file)
""",
            "config.toml": 'layers = 2\n[optimizer]\nkind = "adam"\n',
        },
    ),
    Script(
        "a module of a package",
        {
            "package/__init__.py": "",
            "package/train.py": """
import decimal, pickle, sys
from .data import Sample
from orders import finish

class Model:
    pass

spec = __spec__.name
finish(__name__, __package__, spec, sys.argv, sys.path[0], Sample.__module__, pickle.dumps(Model()), __file__)
""",
            "package/data.py": "import fractions\nclass Sample:\n    pass\n",
        },
        ("-m", "package.train", "--epochs", "2"),
    ),
    Script(
        "a variable that it sets before an import",
        {
            "train.py": """
import os
os.environ["TOKENS_PARALLEL"] = "false"
import decimal
import tokens
from orders import finish
finish(tokens.PARALLEL, os.environ["TOKENS_PARALLEL"], os.environ.get("RANK"))
""",
        },
        installed={"tokens.py": "import os\nPARALLEL = os.environ.get('TOKENS_PARALLEL', 'true')\n"},
    ),
    Script(
        "an installed tracker with a thread",
        {
            "train.py": """
import decimal, threading
import tracker
from orders import finish
tracker.log(1)
tracker.done.wait(60)
finish(tracker.seen, sorted(each.name for each in threading.enumerate()))
""",
        },
        installed={
            "tracker.py": """
import queue, threading
seen, waiting, done = [], queue.Queue(), threading.Event()
def send():
    while True:
        seen.append(waiting.get())
        done.set()
threading.Thread(target=send, name="sender", daemon=True).start()
log = waiting.put
"""
        },
    ),
    Script(
        "processes of its own",
        {
            "train.py": """
import decimal, multiprocessing, os
from work import square, name
from orders import finish
if __name__ == "__main__":
    found = []
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            found.append((method, pool.map(square, range(5)), pool.apply(name)))
    finish(multiprocessing.get_start_method(), *found)
""",
            "work.py": """
import os
def square(number):
    return number * number
def name():
    return __name__, os.environ["RANK"]
""",
        },
    ),
]


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _begin(cli: Cli, script: Script) -> None:
    """Write the files and the manifest of this script, whose modules of the image are in a folder of their own."""
    _write(cli.folder, {**script.files, "orders.py": _ORDERS})
    image = cli.folder / "image" / "site-packages"
    _write(image, script.installed)
    path = [str(image), *filter(None, [os.environ.get("PYTHONPATH")])]
    cli.manifest(
        "",
        replicas=1,
        nprocPerNode=2,
        maxRestarts=50,
        agent={"warmStart": "Auto"},
        container={
            "command": [sys.executable, *script.words],
            "env": [{"name": "PYTHONPATH", "value": os.pathsep.join(path)}],
        },
    )


def _results(cli: Cli, round_: int) -> list[str]:
    """Wait for the values of both ranks of a round; return them."""
    files = [cli.folder / f"result-{round_}-{rank}" for rank in range(2)]
    eventually(lambda: all(each.exists() for each in files), within_s=_DEADLINE_S, what=f"results of round {round_}")
    return [each.read_text() for each in files]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_warm_restart_has_the_output_of_the_cold_start(cli: Cli, script: Script) -> None:
    _begin(cli, script)
    process = cli.begin_run()
    cold = _results(cli, 1)
    first = started(cli, 1)
    assert (first["kind"], first["reason"]) == ("Cold", "the first workers record their imports")
    kind, reason = "Cold", ""
    for round_ in range(1, _MOST_ROUNDS):
        order(cli, round_, "kill")
        assert _results(cli, round_ + 1) == cold
        start = started(cli, round_ + 1)
        kind, reason = start["kind"], start.get("reason") or ""
        if kind == "Warm" or (script.cold_reason and script.cold_reason in reason):
            break
    order(cli, round_ + 1, "end")
    ended = cli.end(process)
    assert (ended.code, kind) == (0, "Cold" if script.cold_reason else "Warm"), reason
    assert script.cold_reason in reason
    last = start_of(cli.status())
    assert (last["kind"], last["firstOutputMilliseconds"] >= 0) == (kind, True)
