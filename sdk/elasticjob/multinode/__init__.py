"""Run a function on several nodes, and return the results of all ranks to the caller.

    # on the driver, the node that calls the function and runs it too
    results = elasticjob.launch_nodes(train, (config,), nprocs=2, nnodes="1:4", rdzv_endpoint="head:29400")
    # on each of the others
    elasticjob.join_nodes("head:29400")            # or: python -m elasticjob.nodes head:29400

`launcher` has both functions. `driver` with its `result_server` is the calling node, `join` with `discovery` a node
that joins, and `worker` runs the function. `protocol` and `serialization` have their messages. Ranks, restarts and lost
nodes are handled by the rendezvous and the agent. This package imports nothing, so that a worker starts fast.
"""
