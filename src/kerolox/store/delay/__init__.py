"""Delay levels: where messages wait, and when they are delivered."""
