"""Reports of a node: usage, progress, hang suspicion, recovery timings."""
