"""The logs of workers and agents: the prefix of a line, the last line, and the folders and names of the files.

A pod with several workers begins each line with `[rank<n>] `. The only worker of a pod writes lines without a prefix.
The files of a worker are `<log dir>/round_<round>/<rank>/{stdout.log,stderr.log,error.json}`.
"""

import re

STDOUT_FILE, STDERR_FILE, ERROR_FILE = "stdout.log", "stderr.log", "error.json"
FILTERED_STDOUT_FILE, FILTERED_STDERR_FILE = "filtered_stdout.log", "filtered_stderr.log"

AGENT_PREFIX = "elasticjob-agent: "
"""The beginning of each line that the agent itself writes."""
_ROUND = "round_"

_MAX_DIGITS = 9  # `int` refuses more than 4,300 digits, and a worker may write any
_NUMBER = rf"(\d{{1,{_MAX_DIGITS}}})"
# No pattern is compiled before its first use: an agent only writes.
_PREFIX = rf"\[rank{_NUMBER}\] "
_ANY_PREFIXES = rf"(?:\[rank{_NUMBER}\]:? ?)*"
_AGENT_END = rf"{AGENT_PREFIX}.* \(exit code {_NUMBER}\)\s*"
_LOG_FILE = rf"(?:.*/)?{_ROUND}{_NUMBER}/{_NUMBER}/(stdout|stderr)\.log"


def rank_mark(rank: int) -> str:
    """Return the mark of a rank in front of its lines."""
    return f"[rank{rank}]"


def line_prefix(rank: int) -> str:
    """Return the prefix of each line of a worker that shares its pod with others."""
    return f"{rank_mark(rank)} "


def split_line(line: str) -> tuple[int | None, str]:
    """Return the rank in the prefix of a line, and the line without the prefix; None if it has none."""
    prefix = re.match(_PREFIX, line)
    return (None, line) if prefix is None else (int(prefix[1]), line[prefix.end() :])


def without_ranks(line: str) -> str:
    """Return the line without its prefix, and without the `[rank<n>]: ` that torch writes itself."""
    return re.sub(_ANY_PREFIXES, "", line, count=1)


def end_message(detail: str, code: int) -> str:
    """Return the message of the last line of an agent."""
    return f"{detail} (exit code {code})"


def parse_agent_end(line: str) -> int | None:
    """Return the exit code in the last line of an agent; None for any other line."""
    found = re.fullmatch(_AGENT_END, line)
    return None if found is None else int(found[1])


def worker_folder(round_: int, rank: int) -> str:
    """Return the folder of a worker's files, relative to the folder of the logs."""
    return f"{_ROUND}{round_}/{rank}"


def round_of(folder_name: str) -> int | None:
    """Return the round whose files are in a folder of this name; None for any other folder."""
    number = folder_name.removeprefix(_ROUND)
    is_round = number != folder_name and number.isdecimal() and len(number) <= _MAX_DIGITS
    return int(number) if is_round else None


def parse_log_file(path: str) -> tuple[int, int, str] | None:
    """Return round, rank and stream (`stdout`, `stderr`) of a worker's log file; None for any other path."""
    found = re.fullmatch(_LOG_FILE, path)
    return None if found is None else (int(found[1]), int(found[2]), found[3])
