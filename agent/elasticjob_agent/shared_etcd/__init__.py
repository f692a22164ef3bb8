"""The etcd that one of a job's nodes starts for all, when no etcd exists: `c10d`, `static`, and calls of the SDK.

`address` is where its nodes meet. `lifetime` starts it, waits for its end and stops it. `endpoint` is what a node
dials: a Unix socket on one machine, else the port. `listeners` are the servers at a port, and whether they are trusted.
"""
