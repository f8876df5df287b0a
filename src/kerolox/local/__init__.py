"""A whole cluster on this machine: in one process, or a process for each broker."""
