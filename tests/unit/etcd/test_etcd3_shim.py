"""The shim in processes of its own: what it needs, what it leaves alone, what it starts."""

import subprocess
import sys

import pytest


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("from elasticjob_etcd._etcd3_shim import load; assert load() is load()", id="twice"),
        pytest.param(
            "from google.protobuf import descriptor_pool\n"
            "import elasticjob_etcd.client\n"
            "try: descriptor_pool.Default().FindFileByName('kv.proto')\n"
            "except KeyError: pass\n"
            "else: raise AssertionError('kv.proto is in the default pool')",
            id="nothing leaks into the default pool",
        ),
        pytest.param(
            "import elasticjob_etcd.client, etcd3, etcd3.etcdrpc\n"
            "from elasticjob_etcd.messages import rpc\n"
            "assert etcd3.etcdrpc is rpc and etcd3.Etcd3Client and etcd3.client().watcher is not None",
            id="etcd3 itself can be imported afterwards",
        ),
        pytest.param(
            "import os, threading\n"
            "before = dict(os.environ)\n"
            "import elasticjob_etcd.client, elasticjob_etcd.embedded\n"
            "import elasticjob_etcd.memory.client, elasticjob_etcd.mirror\n"
            "assert threading.active_count() == 1 and len(os.listdir('/proc/self/task')) == 1\n"
            "assert dict(os.environ) == before",
            id="importing everything starts no thread and touches no environment",
        ),
        pytest.param(
            "import sys, elasticjob_etcd.client\n"
            "from google.protobuf.internal import api_implementation\n"
            "assert api_implementation.Type() == 'python' or 'google.protobuf.text_format' not in sys.modules\n"
            "from google.protobuf import json_format, text_format\n"
            "from google.protobuf.internal import python_message\n"
            "from elasticjob_etcd.messages import rpc\n"
            "assert text_format.MessageToString(rpc.RangeRequest(key=b'x')) == 'key: \"x\"\\n'\n"
            "assert python_message.GeneratedProtocolMessageType",
            id="messages in pure Python are there for who asks for them",
        ),
        pytest.param(
            "import sys, elasticjob_etcd.client\nassert not {'tenacity', 'psutil', 'etcd3'} & set(sys.modules)",
            id="etcd3's own client is not imported",
        ),
    ],
)
def test_the_shim_keeps_to_itself(program: str) -> None:
    ran = python(program)
    assert ran.returncode == 0, ran.stderr


def test_etcd3_imported_before_is_refused_in_words() -> None:
    # etcd3 cannot be imported on protobuf >= 4 without the shim, so this uses a part of it that can be
    ran = python("import sys, types; sys.modules['etcd3'] = types.ModuleType('etcd3'); import elasticjob_etcd.client")
    assert "ImportError: etcd3 was imported before elasticjob_etcd; import elasticjob_etcd.client first" in ran.stderr


def test_a_missing_etcd3_is_reported_with_its_cure() -> None:
    ran = python(
        "import sys, importlib.util; from elasticjob_etcd import _etcd3_shim\nsys.path[:] = []\n_etcd3_shim.load()"
    )
    assert "ImportError: etcd3 is not installed; pip install etcd3==0.12.0" in ran.stderr
