"""The contract that operator, agent and command line share: records, names, keys, exit codes. Standard library only."""
