"""The only room that knows etcd."""
