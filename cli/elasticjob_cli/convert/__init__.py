"""PURE: other systems' jobs as ElasticJobs, with a note by name for every field that cannot be carried over."""
