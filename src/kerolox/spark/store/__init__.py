"""`format("rocketmq-store")`: reads commit log files without a broker."""
