"""Records are compared by the fields that matter."""

from elasticjob_api.status import NodeStatus
from elasticjob_operator.model.compare import fields_except


def test_what_is_left_out_makes_no_difference_and_all_else_does() -> None:
    said = fields_except(NodeStatus, "cpu_percent", "memory_bytes")
    node = NodeStatus(name="j-0", pod_name="j-0-abcde", cpu_percent=1)
    assert said(node) == said(NodeStatus(name="j-0", pod_name="j-0-abcde", memory_bytes=2))
    assert said(node) != said(NodeStatus(name="j-0", pod_name="j-0-abcde", reason="Evicted"))
