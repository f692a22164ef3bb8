"""Each row of the decision table in docs/warm-start.md names a test that sees its sentence and counts the runs."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[3]
_TESTS = _REPOSITORY / "tests" / "integration" / "warm_start"
_ROWS = {
    "the first workers record their imports": "test_decision_table.py::test_a_restart_is_warm",
    "the imports are not repeated yet": (
        "test_imports.py::test_a_round_during_a_slow_build_is_cold_and_the_build_goes_on"
    ),
    "not all workers are forked yet": "test_faults.py::test_a_stopped_zygote_is_replaced",
    "the recording of another node was not used: …": (
        "test_first_start.py::test_a_package_that_has_changed_is_not_imported_ahead"
    ),
    "a worker sets FOO, which no recorded worker has set, and an import may have read it": (
        "test_changed_variables.py::test_after_a_variable_of_later_rounds_the_next_round_is_cold_and_then_right"
    ),
    "a worker has set or imported FOO since the imports were repeated": (
        "test_changed_variables.py::test_a_variable_that_another_rank_sets_after_the_zygote_was_built_counts"
    ),
    "FOO differs from what the modules were imported with": (
        "test_faults.py::test_each_start_that_differs_is_cold_and_names_the_difference"
    ),
    "it is bound to processors, by which libraries choose their threads when they are imported": (
        "test_decision_table.py::test_a_worker_that_is_bound_to_processors_starts_cold"
    ),
    "queue in /app would hide the imported module": (
        "test_faults.py::test_a_file_beside_the_script_that_hides_a_module_is_a_cold_start"
    ),
    "an import has listed the distributions, without mylib in /app": (
        "test_distributions.py::test_a_distribution_beside_the_script_that_imports_have_not_seen_is_a_cold_start"
    ),
    "… has changed since it was imported": "test_faults.py::test_a_package_that_was_changed_since_is_a_cold_start",
    "the processors of this pod are not those that the imports had": (
        "test_changes_since.py::test_an_import_that_counts_the_processors_is_repeated_when_they_change"
    ),
    "the zygote cannot fork: Resource temporarily unavailable": (
        "test_process_limits.py::test_a_zygote_that_may_fork_no_more_is_a_reason_until_it_may"
    ),
    "memory is short: 102 MiB of 2.0 GiB are left": ("test_memory_monitor.py::test_a_zygote_ends_when_memory_is_short"),
    "the imports take more than 300 MiB, …": (
        "test_memory_monitor.py::test_imports_over_their_limit_are_repeated_once_more_memory_is_left"
    ),
    "the zygote is gone: it has ended": "test_faults.py::test_an_idle_zygote_that_is_killed_is_built_again",
    "the zygote did not fork its workers within 30 s": "test_faults.py::test_a_stopped_zygote_is_replaced",
    "the zygote could not be built: the imports took longer than 600 s": (
        "test_imports.py::test_imports_that_hang_are_repeated_by_another_zygote"
    ),
    "it was late, because the machine is busy": (
        "test_busy_machine.py::test_a_worker_that_is_too_late_is_one_cold_start"
    ),
    "its fork server hung, and was killed": "test_faults.py::test_a_stopped_fork_server_makes_one_cold_start",
    "run.sh starts Python in its own way": "test_commands.py::test_a_command_that_cannot_start_warm_runs_once_a_rank",
    "the script or a package sets OMP_NUM_THREADS, which libraries read when loaded; set it in the pod's env": (
        "test_script_variables.py::test_a_variable_that_libraries_read_in_c_is_a_reason"
    ),
    "the option -I keeps Python from loading the warm start": (
        "test_commands.py::test_a_command_that_cannot_start_warm_runs_once_a_rank"
    ),
    "Python did not report itself: it is older than 3.8, or an option or a wrapper keeps it from loading the warm "
    "start": "test_commands.py::test_a_command_that_cannot_start_warm_runs_once_a_rank",
    "only glibc has been tested": "test_decision_table.py::test_an_interpreter_that_was_not_tested_starts_cold",
    "a debugger or coverage tool is active before the script begins": (
        "test_decision_table.py::test_an_interpreter_that_was_not_tested_starts_cold"
    ),
    "the command is longer than 32 KiB": "test_process_limits.py::test_a_long_command_is_a_reason",
    "a .pth file keeps the number of its process": (
        "test_site_code.py::test_a_pth_file_that_keeps_a_fact_of_one_process_is_a_reason"
    ),
    "the script has another socket than the installed packages": (
        "test_site_code.py::test_a_module_of_the_user_that_hides_one_of_python_is_a_reason"
    ),
    "importing a module leaves memory that forked workers do not have (MADV_DONTFORK): …": (
        "test_imports.py::test_an_import_that_a_fork_would_get_wrong_keeps_all_starts_cold"
    ),
    "lib.__getattr__ raises RuntimeError in the zygote; let it raise AttributeError": (
        "test_imports.py::test_an_attribute_function_that_raises_is_named_with_the_cure"
    ),
    "8 zygotes in a row led to no warm start": "test_imports.py::test_too_many_builds_keep_all_starts_cold",
    "2 warm starts in a row ended early": "test_early_ends.py::test_two_crashes_in_a_row_end_the_warm_starts",
    "a worker that was forked ahead hung": "test_faults.py::test_a_worker_that_hangs_as_it_starts_ends_the_warm_starts",
}
"""Sentence of the table → the test that starts such workers."""
_FRAGMENTS = (
    "the recording of another node was not used: ",
    "would hide",
    " has changed since it was imported",
    "memory is short: ",
    "its fork server ",
    "the imports took longer than ",
    "starts Python in its own way",
    " keeps Python",
    "Python did not report itself",
    "keeps the number of its process",
    "than the installed packages",
    "an import has listed the distributions, without ",
    "leaves memory that forked workers do not have (MADV_DONTFORK): ",
    ".__getattr__ raises RuntimeError in the zygote; let it raise AttributeError",
    " zygotes in a row led to no warm start",
    "the imports take more than ",
    " warm starts in a row ended early",
    "the zygote did not fork its workers within ",
)
"""The parts of sentences that are no example."""
_COUNTS = ("ran()", "shown(")
"""Calls of the node that check that the script has run once a rank, and in no other process."""


@cache
def _functions(file: str) -> dict[str, str]:
    """Return the tests of this file and its functions, each with its code."""
    text = (_TESTS / file).read_text()
    found = [each for each in ast.parse(text).body if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef)]
    return {each.name: ast.get_source_segment(text, each) or "" for each in found}


def _sentences_of_the_page() -> list[str]:
    page = (_REPOSITORY / "docs" / "warm-start.md").read_text()
    section = page.partition("## When a worker starts cold")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and "| ---" not in line]
    return [re.findall("`([^`]*)`", row.rpartition(" | ")[2])[0] for row in rows if "`" in row.rpartition(" | ")[2]]


def test_the_table_of_the_page_is_this_one() -> None:
    assert _sentences_of_the_page() == list(_ROWS)


@pytest.mark.parametrize("sentence", _ROWS)
def test_the_test_of_a_row_counts_the_runs(sentence: str) -> None:
    file, _, name = _ROWS[sentence].partition("::")
    functions = _functions(file)
    code = functions[name]
    called = [code, *(functions[each] for each in functions if f"{each}(" in code)]
    assert any(count in each for each in called for count in _COUNTS)


@pytest.mark.parametrize("sentence", _ROWS)
def test_the_test_of_a_row_has_its_sentence(sentence: str) -> None:
    text = (_TESTS / _ROWS[sentence].partition("::")[0]).read_text()
    fragment = next((each for each in _FRAGMENTS if each in sentence), sentence)
    assert fragment in text
