"""The message store: commit log, consume queues, key index, timers. Independent of the network."""
