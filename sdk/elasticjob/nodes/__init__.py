"""The public path of `elasticjob.multinode`."""

"""The public path of `elasticjob.multinode`."""
"""The public path of `elasticjob.multinode`."""
"""The public path of `elasticjob.multinode`."""
"""The public path of `elasticjob.multinode`."""
