"""The `elasticjob` command."""
