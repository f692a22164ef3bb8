"""The manifests that `elasticjob run` reads, and the sentence for each fault."""

from pathlib import Path

import pytest

from elasticjob_cli.errors import InvalidManifest
from elasticjob_cli.local.manifest import read_manifest
from elasticjob_cli.yaml_json import read_yaml

_GOOD = """\
apiVersion: elasticjob.io/v1alpha1
kind: ElasticJob
metadata:
  name: digits
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: trainer
        image: python:3.11
        command: [python, train.py]
"""


def _write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "job.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _fault(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(InvalidManifest) as caught:
        read_manifest(_write(tmp_path, text))
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_a_good_manifest_is_a_job(tmp_path: Path) -> None:
    manifest = read_manifest(_write(tmp_path, f"---\n{_GOOD}---\n"))
    assert (manifest.job.metadata.name, manifest.job.spec.replicas) == ("digits", 2)
    assert manifest.folder == tmp_path.resolve()


def test_text_that_looks_like_a_date_remains_text(tmp_path: Path) -> None:
    text = _GOOD.replace("name: digits", "name: digits\n  annotations: {since: 2025-01-01}")
    assert read_manifest(_write(tmp_path, text)).object["metadata"]["annotations"] == {"since": "2025-01-01"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "job.yaml: the file is empty; it must contain one ElasticJob", id="empty"),
        pytest.param("a: [", "job.yaml:1: is not YAML: expected the node content", id="not YAML"),
        pytest.param("kind: ElasticJob\n\tspec: 1\n", "job.yaml:2: is not YAML: found character '\\t'", id="a tab"),
        pytest.param(b"\xff\xfe\x00", "job.yaml: is not YAML: it is not UTF-8 text", id="not text"),
        pytest.param("a\x00b", "job.yaml: is not YAML: special characters are not allowed", id="not printable"),
        pytest.param("a: !!python/name:x 1", "job.yaml:1: is YAML that a manifest must not use", id="a foreign tag"),
        pytest.param("a: &a [*a]", "job.yaml: an alias makes a part of it contain itself", id="an endless one"),
        pytest.param("hello", "job.yaml:1: manifest: is not an object", id="a word"),
        pytest.param(f"{_GOOD}---\n{_GOOD}", "job.yaml:14: a second document begins here;", id="two documents"),
        pytest.param(
            _GOOD.replace("kind: ElasticJob", "kind: Job"),
            "job.yaml:2: kind: is 'Job'; it must be ElasticJob",
            id="another kind",
        ),
        pytest.param(
            _GOOD.replace("v1alpha1", "v9"),
            "job.yaml:1: apiVersion: is 'elasticjob.io/v9'; it must be elasticjob.io/v1alpha1",
            id="another version",
        ),
        pytest.param(
            _GOOD.replace("replicas:", "replica:"),
            "job.yaml:6: spec.replica: unknown field; did you mean replicas?",
            id="an unknown field",
        ),
        pytest.param(
            _GOOD.replace("replicas: 2", "replicas: two"),
            "job.yaml:6: spec.replicas: 'two' is not a whole number",
            id="a wrong type",
        ),
        pytest.param(
            _GOOD.replace("        command: [python, train.py]\n", ""),
            "job.yaml:10: spec.template.spec.containers[0].command: is required",
            id="no command",
        ),
        pytest.param(
            _GOOD.replace("replicas: 2", "replicas: 2\n  replicas: 3"),
            "job.yaml:7: spec.replicas: is given twice; remove one of them",
            id="a key twice",
        ),
        pytest.param(
            _GOOD.replace("name: digits", "name: ../up"),
            "job.yaml:4: metadata.name: is '../up';",
            id="a path for a name",
        ),
        pytest.param(
            _GOOD.replace("name: digits", "name: digits\n  namespace: a/b"),
            "job.yaml:5: metadata.namespace: is 'a/b';",
            id="a path as namespace",
        ),
        pytest.param(
            _GOOD.replace("      containers:", "      volumes: 3\n      containers:"),
            "job.yaml:9: spec.template.spec.volumes: is 3; it must be a list in brackets",
            id="another shape",
        ),
        pytest.param(
            _GOOD.replace("replicas: 2", "replicas: 2\n  suspend: true"),
            "job.yaml:7: spec.suspend: is true, so the job would never start",
            id="suspended",
        ),
    ],
)
def test_a_fault_is_one_sentence_with_its_line(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    message = _fault(tmp_path, text)
    assert message.startswith(sentence)
    assert "\n" not in message


def test_variables_that_are_the_operators_are_refused_with_all_that_clash(tmp_path: Path) -> None:
    env = "        env: [{name: ELASTICJOB_SLOT, value: a}, {name: ELASTICJOB_JOB, value: b}]\n"
    message = _fault(tmp_path, f"{_GOOD}{env}").splitlines()
    assert [line.split(" is ")[0] for line in message] == [
        "job.yaml:9: spec.template.spec.containers: variable ELASTICJOB_SLOT: ELASTICJOB_*",
        "job.yaml:9: spec.template.spec.containers: variable ELASTICJOB_JOB: ELASTICJOB_*",
    ]


def test_several_faults_are_a_line_each(tmp_path: Path) -> None:
    message = _fault(tmp_path, _GOOD.replace("replicas: 2", "minReplicas: 0\n  maxRestarts: -1"))
    assert [line.split(": ")[1] for line in message.splitlines()] == ["spec.minReplicas", "spec.maxRestarts"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest, match=r"none\.yaml: there is no such file"):
        read_manifest(tmp_path / "none.yaml")


def test_a_folder_is_not_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest, match="is a folder"):
        read_manifest(tmp_path)


def bomb(levels: int) -> str:
    """Return a text of a few hundred bytes whose aliases expand to ten to the power of `levels` values."""
    lines = ["a0: &a0 x"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels + 1)]
    return "\n".join(lines)


def test_aliases_that_expand_to_too_many_values_are_refused_at_once(tmp_path: Path) -> None:
    assert _fault(tmp_path, bomb(40)).endswith(
        "values with its aliases expanded, of at most 100,000; use fewer aliases"
    )
    with pytest.raises(InvalidManifest, match="has 123,456,799 values with its aliases expanded"):
        read_yaml(str(_write(tmp_path, bomb(8))))


def test_yaml_that_contains_itself_or_is_too_deep_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for text in ("a: &a [*a]", "a: &a {b: *a}"):
        with pytest.raises(InvalidManifest, match="makes a part of it contain itself"):
            read_yaml(str(_write(tmp_path, text)))
    with pytest.raises(InvalidManifest, match="is nested too deeply to be read"):
        read_yaml(str(_write(tmp_path, "[" * 5000 + "]" * 5000)))
