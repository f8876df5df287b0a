"""Timer messages: the timer wheel of RocketMQ 5.x, its log, and their delivery."""
