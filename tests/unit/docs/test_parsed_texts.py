"""No module parses a sentence that another module writes: each one that has regular expressions is here.

A format of our own is read by the module that writes it. A fact has a field, so that no reader needs the sentence.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHIPPED = ("api", "etcd", "agent", "operator", "sdk", "cli")

READS = {
    # words of users: command lines, manifests, names
    "agent/elasticjob_agent/multiprocessing/logs.py",
    "agent/elasticjob_agent/multiprocessing/std.py",
    "agent/elasticjob_agent/workers/macros.py",
    "api/elasticjob_api/validation.py",
    "cli/elasticjob_cli/convert/torchrun.py",
    "cli/elasticjob_cli/local/environment.py",
    "cli/elasticjob_cli/local/fault_spec.py",
    "cli/elasticjob_cli/local/manifest.py",
    "cli/elasticjob_cli/local/volumes.py",
    "cli/elasticjob_cli/quantity.py",
    "etcd/elasticjob_etcd/listening.py",
    # output of workers, and of libraries without fields
    "agent/elasticjob_agent/rendezvous/protocol/collateral_failures.py",
    "agent/elasticjob_agent/workers/error_message.py",
    "agent/elasticjob_agent/workers/failure_recorder.py",
    "etcd/elasticjob_etcd/_etcd3_shim.py",
    "operator/elasticjob_operator/cluster/api_errors.py",
    "operator/elasticjob_operator/cluster/unknown_fields.py",
    "operator/elasticjob_operator/log_format.py",
    # formats of our own, beside their writers
    "agent/elasticjob_agent/rendezvous/protocol/link_handshake.py",
    "api/elasticjob_api/keys.py",
    "api/elasticjob_api/link_secret.py",
    "api/elasticjob_api/log_layout.py",
    "api/elasticjob_api/slot_map.py",
    "api/elasticjob_api/slot_ranges.py",
    "sdk/elasticjob/multinode/authentication.py",
    # checks and layout of text, not its meaning
    "cli/elasticjob_cli/yaml_json.py",
    "cli/elasticjob_cli/views/text.py",
    "operator/elasticjob_operator/informers/record_validation.py",
}


def imports_re(source: str) -> bool:
    """Return whether a module imports `re`, anywhere."""
    nodes = ast.walk(ast.parse(source))
    return any(isinstance(node, ast.Import) and any(name.name == "re" for name in node.names) for node in nodes)


def test_a_module_with_regular_expressions_is_known() -> None:
    files = [file for folder in SHIPPED for file in sorted((ROOT / folder).rglob("*.py"))]
    found = {str(file.relative_to(ROOT)) for file in files if imports_re(file.read_text())}
    assert found
    assert found - READS == set()


def test_an_import_within_a_function_is_found() -> None:
    assert imports_re("def f():\n    import re\n")
    assert not imports_re("import record\n")
