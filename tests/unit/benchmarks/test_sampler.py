"""The sampler tells whose function used the processor, in a process of its own: its timer is the whole process's."""

import json
import subprocess
import sys

_BUSY = """
import json, time
from benchmarks.profiles.sampler import Sampler
from elasticjob_api import records
from elasticjob_api.records import Done
def work(until_s):
    while time.process_time() < until_s:
        records.decode(Done, records.encode(Done("1" * 8)))
sampler = Sampler()
sampler.start()
before_s = time.process_time()
work(before_s + 0.5)
layers = sampler.stop()
print(json.dumps({"layers": layers, "stacks": sampler.stacks, "spent_s": time.process_time() - before_s}))
"""


def test_what_used_the_processor_is_named_and_all_of_it_is_counted() -> None:
    done = subprocess.run([sys.executable, "-c", _BUSY], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert max(said["layers"], key=said["layers"].get) == "records"
    assert 0.95 * said["spent_s"] < sum(said["layers"].values()) <= 1.05 * said["spent_s"]
    assert any("<string>.work;records.encode" in stack for stack in said["stacks"])
