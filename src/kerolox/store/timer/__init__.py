"""Messages that are delivered later: RocketMQ 5.x's timer wheel, its log, and what turns them."""
