"""Copies the commit log to other brokers, over RocketMQ's HA protocols."""
