"""Convert jobs of other systems to ElasticJobs, with a note for every field that cannot be carried over."""
