"""The modules that an agent imports at its start: none that costs time and memory and that few agents use."""

import subprocess
import sys

import pytest

_UNUSED = {
    "ssl": "gRPC brings its own TLS",
    "_hashlib": "Python's built-in hashes are enough",
    "multiprocessing": "only function workers need it",
    "decimal": "only error files need it",
    "tempfile": "only an agent without a folder for logs needs it",
    "importlib.metadata": "only --version needs it",
    "psutil": "only a watch for hangs and a named interface need it",
    "shutil": "only logs of old rounds need it",
    "ctypes": "only the fork server needs it",
    "elasticjob_agent.warm_start.warm_starter": "only an agent whose warm start is on needs it",
    "elasticjob_etcd.embedded": "only an agent that starts an etcd needs it",
}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The names of all modules in a process that has imported the agent."""
    code = "import sys; from elasticjob_agent.cli.main import load_command; load_command(); print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("name", _UNUSED)
def test_an_agent_begins_without_the_module(name: str, imported: set[str]) -> None:
    assert name not in imported, _UNUSED[name]


def test_the_agent_is_imported(imported: set[str]) -> None:
    assert {"elasticjob_agent.cli.run", "grpc"} <= imported


def test_an_asyncio_that_was_imported_before_keeps_its_tls() -> None:
    code = (
        "import asyncio, ssl, sys; from elasticjob_agent.cli.main import load_command; load_command(); "
        "assert sys.modules['ssl'] is ssl"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tls_can_be_imported_afterwards() -> None:
    code = (
        "from elasticjob_agent.cli.main import load_command; load_command(); "
        "import ssl, _hashlib; ssl.create_default_context()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
