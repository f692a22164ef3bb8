"""The examples of the migration pages: the page has the output of `elasticjob convert`."""

import re
import textwrap
from pathlib import Path

import pytest
import yaml

from elasticjob_api.job import parse_job
from elasticjob_cli.convert.convert import convert_object
from elasticjob_cli.yaml_json import as_yaml

DOCS = Path(__file__).resolve().parents[3] / "docs"
_BLOCK = r":\n\n((?:    .*\n|\n)+)"


def block(page: str, begin: str) -> str:
    """Return the indented block after the line that begins with this text."""
    found = re.search(rf"^{begin}.*{_BLOCK}", page, re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[1]).strip() + "\n"


@pytest.mark.parametrize("system", ["pytorchjob", "torchelastic", "dlrover"])
def test_the_example_is_converted_as_the_page_shows(system: str) -> None:
    page = (DOCS / f"migrating-from-{system}.md").read_text()
    made = convert_object(yaml.safe_load(block(page, "Before")), f"{system}.yaml")
    shown = "".join(f"# {note}\n" for note in made.notes) + as_yaml(made.manifest)
    assert block(page, "After") == shown
    parse_job(made.manifest)
