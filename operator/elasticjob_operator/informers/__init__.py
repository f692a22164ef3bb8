"""Local copies of what the API server and etcd hold, kept current by watches."""
