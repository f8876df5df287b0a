"""Whether Apache's own brokers, clients and tools can tell our servers from theirs."""
