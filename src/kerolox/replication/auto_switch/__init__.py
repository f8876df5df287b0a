"""Replication in controller mode: epochs, sync state set, and the auto-switch HA stream."""
