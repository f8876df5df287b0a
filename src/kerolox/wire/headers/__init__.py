"""Headers of requests and responses, one module per family of requests."""
