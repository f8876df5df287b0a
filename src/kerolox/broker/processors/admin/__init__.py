"""Processors of requests from administration tools (AdminBrokerProcessor)."""
