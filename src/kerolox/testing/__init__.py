"""A cluster inside of a test: real servers on free ports, gone when the test ends."""

from kerolox.testing.cluster import Cluster

__all__ = ["Cluster"]
