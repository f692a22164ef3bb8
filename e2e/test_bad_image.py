"""An image that does not exist is reported where a user looks first: `kubectl get` and `kubectl describe`."""

import re

import pytest

from e2e.manifests import digits, trainer
from e2e.space import JOB, Space
from testing.waiting import eventually

pytestmark = pytest.mark.timeout(120)

IMAGE = "elasticjob/no-such-image:1"


def test_kubectl_describe_shows_the_pod_and_the_reason_for_an_image_that_does_not_exist(space: Space) -> None:
    manifest = digits(epochs=1)
    trainer(manifest)["image"] = IMAGE
    space.apply(manifest)
    reported = eventually(lambda: _reported(space), within_s=60, what="kubectl describe shows why no pod starts")
    assert re.search(rf"Message: +pod {JOB}-\d-\w{{5}}: (ErrImagePull|ImagePullBackOff): .*{IMAGE}", reported)
    row = space.row()
    assert row["PHASE"] == "Pending"
    assert row["REASON"] in {"ErrImagePull", "ImagePullBackOff"}


def _reported(space: Space) -> str:
    lines = space.kubectl("describe", "ejob", JOB).splitlines()
    return next((line for line in lines if "ImagePull" in line), "")
