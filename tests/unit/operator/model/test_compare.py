"""Records are compared by some of their fields."""

from elasticjob_api.status import NodeStatus
from elasticjob_operator.model.compare import fields_except


def test_excluded_fields_make_no_difference_and_all_others_do() -> None:
    compared = fields_except(NodeStatus, "cpu_percent", "memory_bytes")
    node = NodeStatus(name="j-0", pod_name="j-0-abcde", cpu_percent=1)
    assert compared(node) == compared(NodeStatus(name="j-0", pod_name="j-0-abcde", memory_bytes=2))
    assert compared(node) != compared(NodeStatus(name="j-0", pod_name="j-0-abcde", reason="Evicted"))
