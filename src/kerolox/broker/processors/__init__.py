"""What a broker answers, by kind of request."""
