"""An in-memory etcd that passes the contract tests of the real one."""
