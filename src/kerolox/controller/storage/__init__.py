"""Where a controller keeps its broker groups: one local file, or etcd."""
