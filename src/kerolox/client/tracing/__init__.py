"""Message traces, as RocketMQ writes them."""
