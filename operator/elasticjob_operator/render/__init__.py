"""Kubernetes objects of an ElasticJob, as plain dictionaries; fields that the user set are not changed."""
