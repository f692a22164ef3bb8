"""The reconcile loop: work queue, plan, execution, status."""
