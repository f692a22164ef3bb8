"""Rules for the installation's own etcd, without I/O."""
