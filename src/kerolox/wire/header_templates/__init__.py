"""Templates of headers: decode a header that equals an earlier one but for a few values. `reader.py` is the entry."""
