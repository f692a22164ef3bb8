"""Invalid manifests, each refused by the API server with a helpful message."""

from typing import Any

import pytest

from testing.kube.manifests import ELASTIC, changed
from testing.kube.namespace import Namespace
from testing.servers.apiserver import ApiServer
from tests.integration.kube.bad_manifests import BAD, UNKNOWN_FIELDS

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def anywhere(crd: ApiServer) -> Namespace:
    """Return one namespace for all tests: no object is ever stored in it."""
    shared = Namespace(crd, "refused")
    shared.create()
    return shared


@pytest.mark.parametrize(("changes", "sentence"), BAD)
def test_an_invalid_manifest_is_refused_with(anywhere: Namespace, changes: dict[str, Any], sentence: str) -> None:
    said = anywhere.refused("apply", "--dry-run=server", "-f", "-", stdin=changed(ELASTIC, changes))
    assert sentence in said


@pytest.mark.parametrize(("changes", "field"), UNKNOWN_FIELDS)
def test_an_unknown_field_outside_the_template_is_refused(
    anywhere: Namespace, changes: dict[str, Any], field: str
) -> None:
    said = anywhere.refused("apply", "--dry-run=server", "-f", "-", stdin=changed(ELASTIC, changes))
    assert f'unknown field "{field}"' in said


def test_an_unknown_field_is_left_out_when_it_is_not_checked(namespace: Namespace) -> None:
    stored = namespace.apply(changed(ELASTIC, {"spec.replica": 3}), "--validate=false")
    assert "replica" not in stored["spec"]
