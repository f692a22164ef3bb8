"""An in-memory etcd, held to the contract tests of the real one."""
