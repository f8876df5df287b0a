"""Tables of a broker: topics, consumer groups, offsets, filters, connected clients and queue locks."""
