"""A local cluster for `kerolox up`: in one process, or with a process for each broker."""
