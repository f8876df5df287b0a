"""Benchmarks that compare Kerolox with Apache RocketMQ in one run, under one load generator."""
