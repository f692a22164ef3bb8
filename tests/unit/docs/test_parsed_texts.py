"""Each module with regular expressions is listed here, by the kind of text that it reads.

No module may parse a sentence that another module writes: a fact has a field. This test cannot see what a module
reads. So a module that is added here needs a review, and one that no longer needs `re` is removed.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHIPPED = ("api", "etcd", "agent", "operator", "sdk", "cli")

READS = {
    # words of users: command lines, manifests, names
    "agent/elasticjob_agent/keep/rules/step_name.py",
    "agent/elasticjob_agent/multiprocessing/logs.py",
    "agent/elasticjob_agent/multiprocessing/std.py",
    "agent/elasticjob_agent/workers/macros.py",
    "api/elasticjob_api/keep_validation.py",
    "api/elasticjob_api/quantity.py",
    "api/elasticjob_api/validation.py",
    "cli/elasticjob_cli/convert/torchrun.py",
    "cli/elasticjob_cli/local/environment.py",
    "cli/elasticjob_cli/local/fault_spec.py",
    "cli/elasticjob_cli/local/manifest.py",
    "cli/elasticjob_cli/local/volumes.py",
    "etcd/elasticjob_etcd/listening.py",
    # output of workers, and of libraries without fields
    "agent/elasticjob_agent/rendezvous/protocol/collateral_failures.py",
    "agent/elasticjob_agent/rendezvous/protocol/startup_failure.py",
    "agent/elasticjob_agent/workers/error_message.py",
    "agent/elasticjob_agent/workers/failure_recorder.py",
    "etcd/elasticjob_etcd/_etcd3_shim.py",
    "operator/elasticjob_operator/cluster/api_errors.py",
    "operator/elasticjob_operator/cluster/unknown_fields.py",
    "operator/elasticjob_operator/log_format.py",
    # formats of our own, beside their writers
    "agent/elasticjob_agent/rendezvous/protocol/keep/sources.py",
    "agent/elasticjob_agent/keep/persist/layout.py",
    "agent/elasticjob_agent/keep/transfer/handshake.py",
    "agent/elasticjob_agent/rendezvous/protocol/link_handshake.py",
    "api/elasticjob_api/failure_text.py",
    "api/elasticjob_api/kept_steps.py",
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
    """Return whether a module imports `re` or a name of it, anywhere."""
    nodes = list(ast.walk(ast.parse(source)))
    modules = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    return "re" in modules | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


def test_the_modules_with_regular_expressions_are_those_of_the_list() -> None:
    files = [file for folder in SHIPPED for file in sorted((ROOT / folder).rglob("*.py"))]
    assert {str(file.relative_to(ROOT)) for file in files if imports_re(file.read_text())} == READS


def test_each_form_of_import_is_found() -> None:
    assert imports_re("def f():\n    import re\n")
    assert imports_re("from re import compile\n")
    assert not imports_re("import record\nfrom . import re\n")
