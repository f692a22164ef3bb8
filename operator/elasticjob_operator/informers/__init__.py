"""Copies of the objects of the API server and the keys of etcd, kept up to date by watches."""
