"""The controller of RocketMQ 5: who is master of a broker group, by epoch and sync state set."""
