"""The installation's own etcd: health, leases, members, space, volumes."""
