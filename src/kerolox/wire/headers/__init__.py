"""The headers of requests and answers, by who answers them."""
