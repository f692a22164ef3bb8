"""Manifests whose `spec.keep` is invalid, each with the field and a part of the API server's message."""

from typing import Any

import pytest

SIZE = "spec.keep.sizeLimit must be a quantity above 0, as 8Gi"
RATE = "spec.keep.bandwidth must be a quantity of bytes a second, as 256Mi, or 0 for no limit"
PATH = "spec.keep.persistTo must be an absolute path without '..', ':' and '$', as /checkpoints/steps"
IN_MEMORY = "spec.keep.persistTo must not lie in /var/run/elasticjob/keep, which is in memory"
WITHOUT_PATH = "spec.keep.persistTo is required for persistEverySeconds, persistKeep and resume"

FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"copies": 4}, "spec.keep.copies in body should be less than or equal to 3"),
    ({"copies": -1}, "spec.keep.copies in body should be greater than or equal to 0"),
    ({"bandwidth": "fast"}, RATE),
    ({"bandwidth": -1}, RATE),
    ({"restoreTimeoutSeconds": 0}, "spec.keep.restoreTimeoutSeconds in body should be greater than or equal to 1"),
    ({"restoreTimeoutSeconds": 3601}, "spec.keep.restoreTimeoutSeconds in body should be less than or equal to 3600"),
    ({"persistTo": ""}, PATH),
    ({"persistTo": "ckpt"}, PATH),
    ({"persistTo": "/"}, PATH),
    ({"persistTo": "/a/../b"}, PATH),
    ({"persistTo": "/a/."}, PATH),
    ({"persistTo": "/a//b"}, PATH),
    ({"persistTo": "/a/$(HOME)"}, PATH),
    ({"persistTo": "/a:b"}, PATH),
    ({"persistTo": "/a\nb"}, PATH),
    ({"persistTo": "/a\n"}, PATH),
    ({"persistTo": "/" + "x" * 1024}, "spec.keep.persistTo: Too long: may not be more than 1024"),
    ({"persistTo": "/var/run/elasticjob/keep"}, IN_MEMORY),
    ({"persistTo": "/var/run/elasticjob/keep/"}, IN_MEMORY),
    ({"persistTo": "/var/run/elasticjob/keep/x"}, IN_MEMORY),
    ({"persistEverySeconds": 60}, WITHOUT_PATH),
    ({"persistKeep": 3}, WITHOUT_PATH),
    ({"resume": True}, WITHOUT_PATH),
    ({"resume": False}, WITHOUT_PATH),
    (
        {"persistTo": "/a", "persistEverySeconds": 9},
        "spec.keep.persistEverySeconds in body should be greater than or equal to 10",
    ),
    ({"persistTo": "/a", "persistKeep": 0}, "spec.keep.persistKeep in body should be greater than or equal to 1"),
    ({"persistTo": "/a", "persistKeep": 101}, "spec.keep.persistKeep in body should be less than or equal to 100"),
    ({"persistTo": "/a", "resume": "yes"}, "spec.keep.resume in body must be of type boolean"),
]
"""Fields beside a good sizeLimit."""


def _id(fields: dict[str, Any]) -> str:
    return "keep-" + "-".join(f"{name}-{str(value)[:12]!r}" for name, value in fields.items())


KEEP = [
    pytest.param({"spec.keep": {}}, "spec.keep.sizeLimit: Required value", id="keep-without-size"),
    pytest.param({"spec.keep": {"sizeLimit": "0"}}, SIZE, id="keep-size-zero"),
    pytest.param({"spec.keep": {"sizeLimit": "much"}}, SIZE, id="keep-size"),
    pytest.param(
        {"spec.keep": {"sizeLimit": 8}}, "spec.keep.sizeLimit in body must be of type string", id="keep-size-number"
    ),
    *(pytest.param({"spec.keep": {"sizeLimit": "8Gi", **each}}, said, id=_id(each)) for each, said in FIELDS),
]
