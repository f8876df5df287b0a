"""RocketMQ's files: commit log, consume queues, key index, checkpoint. Knows nothing of sockets."""
