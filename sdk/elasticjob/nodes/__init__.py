"""The public path of `elasticjob.multinode`."""
