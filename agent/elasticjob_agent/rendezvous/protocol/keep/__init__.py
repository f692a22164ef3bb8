"""The rules of Keep in a round: history, choice of the step to restore, placement of replicas. Without I/O."""
