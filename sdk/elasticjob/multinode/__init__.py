"""A function on several nodes, with everybody's results where it was asked for.

    # on the node that asks, which takes part itself
    results = elasticjob.launch_nodes(train, (config,), nprocs=2, nnodes="1:4", rdzv_endpoint="head:29400")
    # on each of the others
    elasticjob.join_nodes("head:29400")            # or: python -m elasticjob.nodes head:29400

`launcher` has both; `asker` with its `desk` is the node that asks, `attending` with `guest` one that joins, `worker`
runs the function, `wire` and `parcel` are what they send each other. Ranks, restarts and lost nodes are the
rendezvous' and the agent's. Nothing is imported here: a worker must begin without any of it.
"""
