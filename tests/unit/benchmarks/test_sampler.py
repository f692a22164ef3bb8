"""The sampler finds the function that used the processor, in a process of its own, as its timer is per process."""

import json
import subprocess
import sys

_BUSY = """
import json, time
from benchmarks.profiles.sampler import Sampler
from elasticjob_api import records
from elasticjob_api.records import Completion
def work(until_s):
    while time.process_time() < until_s:
        records.decode(Completion, records.encode(Completion("1" * 8)))
sampler = Sampler()
sampler.start()
before_s = time.process_time()
work(before_s + 0.5)
layers = sampler.stop()
print(json.dumps({"layers": layers, "stacks": sampler.stacks, "spent_s": time.process_time() - before_s}))
"""


def test_what_used_the_processor_is_named_and_all_of_it_is_counted() -> None:
    done = subprocess.run([sys.executable, "-c", _BUSY], capture_output=True, text=True, check=True)
    output = json.loads(done.stdout)
    assert max(output["layers"], key=output["layers"].get) == "records"
    assert 0.95 * output["spent_s"] < sum(output["layers"].values()) <= 1.05 * output["spent_s"]
    assert any("<string>.work;records.encode" in stack for stack in output["stacks"])
