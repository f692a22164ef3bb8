"""Which commands are changed so that their interpreter registers the signal for stacks."""

import sys

import pytest

from elasticjob_agent.supervisor import Command, Null
from elasticjob_agent.warm_start.eligibility import skipping_option
from elasticjob_agent.warm_start.stack_injection import with_stacks


@pytest.mark.parametrize(
    ("options", "skips"),
    [
        ("train.py", False),
        ("-u train.py -I", False),
        ("-m pkg -E", False),
        ("-mpkg -E", False),
        ("-c S", False),
        ("-cS", False),
        ("- -S", False),
        ("--help -S", False),
        ("-W I train.py", False),
        ("-WI train.py", False),
        ("-uX dev -S train.py", True),
        ("-I train.py", True),
        ("-uE train.py", True),
        ("-O -sS train.py", True),
        ("", False),
    ],
)
def test_options_that_keep_python_from_our_module(options: str, *, skips: bool) -> None:
    assert bool(skipping_option(options.split())) is skips


def command(*argv: str) -> Command:
    return Command(name="rank 0", argv=argv, env={"PATH": "/bin"}, cwd=None, stdout=Null(), stderr=Null())


def test_python_is_changed_and_other_programs_are_not() -> None:
    assert with_stacks(command(sys.executable, "train.py")).env.keys() > {"PATH"}
    for argv in (("/bin/sh", "run.sh"), (sys.executable, "-I", "train.py"), ("no-such-command",)):
        assert with_stacks(command(*argv)) == command(*argv)
