"""Keep: snapshots of the training in the memory of peers, moved and copied by a process of their own, the keeper."""
