"""The message from the log of an etcd that did not start."""

from pathlib import Path

import pytest

from elasticjob_etcd.embedded_log import explain, last_error, rejects_flag


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "it ended; it wrote nothing", id="empty"),
        pytest.param("\n\n", "it ended; it wrote nothing", id="blank lines"),
        pytest.param("first\nlast words\n\n", "it ended; its last log line: last words (log: {log})", id="plain"),
        pytest.param('{"msg": "no", "error": "bad"}', "it ended; its last log line: no: bad (log: {log})", id="JSON"),
        pytest.param('{"msg": cut', 'it ended; its last log line: {{"msg": cut (log: {log})', id="half JSON"),
        pytest.param("[1]", "it ended; its last log line: [1] (log: {log})", id="other JSON"),
        pytest.param(
            'x\n{"msg": "discovery failed", "error": "listen tcp: bind: address already in use"}\nbye',
            "etcd cannot listen on port 2379 of this machine: another program does; choose another port",
            id="port in use",
        ),
    ],
)
def test_the_last_words_are_put_into_one_sentence(tmp_path: Path, text: str, expected: str) -> None:
    log = tmp_path / "etcd.log"
    log.write_text(text)
    assert explain(log, port=2379, otherwise="it ended") == expected.format(log=log)


def test_the_last_error_is_found_above_a_stack(tmp_path: Path) -> None:
    log = tmp_path / "etcd.log"
    log.write_text(
        '{"level":"error","msg":"slow"}\n{"level":"panic","msg":"cannot commit","error":"no space left on device"}\n'
        '{"level":"info","msg":"news"}\npanic: cannot commit\n\ngoroutine 1 [running]:\n\tmain.go:1\n'
    )
    assert last_error(log) == "cannot commit: no space left on device"
    log.write_text('{"level":"info","msg":"news"}\n')
    assert last_error(log) == ""


def test_a_log_that_is_missing_is_no_error(tmp_path: Path) -> None:
    assert explain(tmp_path / "etcd.log", port=0, otherwise="it ended") == "it ended; it wrote nothing"
    assert not rejects_flag(tmp_path / "etcd.log", "unsafe-no-fsync")
