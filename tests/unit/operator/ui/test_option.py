"""The operator's option `--ui HOST:PORT`: off by default; an invalid address is an error with an example."""

import pytest

from elasticjob_operator.main import _parser

NEEDED = ("--etcd-endpoints", "etcd:2379")


def test_without_the_option_there_is_no_page() -> None:
    assert _parser().parse_args(NEEDED).ui is None


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:8081", ("127.0.0.1", 8081)), ("[::1]:9000", ("::1", 9000)), ("localhost:80", ("localhost", 80))],
)
def test_an_address(text: str, address: tuple[str, int]) -> None:
    assert _parser().parse_args([*NEEDED, "--ui", text]).ui == address


@pytest.mark.parametrize("text", ["8081", ":8081", "host:", "host:0", "host:65536", "host:x"])
def test_an_invalid_address_is_refused_with_an_example(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args([*NEEDED, "--ui", text])
    assert f"{text!r} is not HOST:PORT, for example 127.0.0.1:8081" in capsys.readouterr().err
