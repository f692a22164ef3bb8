"""The client of etcd and its in-memory twin. Only this package knows etcd."""
