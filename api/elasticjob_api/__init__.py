"""The contract that operator, agent and command line share: records, keys, names, exit codes. Standard library only."""
