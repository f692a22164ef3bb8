"""PURE: an ElasticJob as Kubernetes objects: plain dictionaries, everything the user wrote in them untouched."""
