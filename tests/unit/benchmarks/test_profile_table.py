"""A profile as text: the greatest first, with its share of all that is not another process's."""

from benchmarks.profiles.table import collapsed, table


def test_shares_are_of_what_is_not_beside() -> None:
    spent = {"first": {"gRPC": 1.0, "records": 3.0, "etcd": 5.0}, "next": {"gRPC": 2.0}}
    lines = [line.split() for line in table("members", spent, beside=["etcd"]).splitlines()]
    assert lines[3:5] == [
        ["records", "3.000", "75", "%", "0.000", "0", "%"],
        ["gRPC", "1.000", "25", "%", "2.000", "100", "%"],
    ]
    assert lines[-2:] == [["together", "4.000", "2.000"], ["etcd", "5.000", "0.000"]]


def test_stacks_are_lines_with_their_microseconds_the_dearest_first() -> None:
    assert collapsed({"run;wait": 5, "run;work": 70}) == "run;work 70\nrun;wait 5\n"
