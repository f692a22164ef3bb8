"""Times of `-X importtime` by owner; imports that every Python makes first are no agent's."""

from benchmarks.profiles.startup import by_package

_SAID = """import time: self [us] | cumulative | imported package
import time:       900 |        900 |   encodings
import time:       700 |       1600 | site
import time:      2000 |       2000 |     grpc._cython
import time:      1000 |       3000 |   grpc
import time:       250 |        250 |   json.decoder
import time:       500 |       3750 | elasticjob_agent.cli.run
"""


def test_imports_are_added_up_by_whose_they_are() -> None:
    assert by_package([_SAID]) == {"gRPC": 3.0, "else of Python's library": 0.25, "ours": 0.5}


def test_of_several_starts_the_quickest_import_of_each_module_counts() -> None:
    other = _SAID.replace("2000 |       2000", "9000 |       9000").replace("1000 |       3000", " 500 |       9500")
    assert by_package([_SAID, other])["gRPC"] == 2.5
