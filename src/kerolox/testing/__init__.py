"""An embedded cluster for tests: real servers on free ports."""

from kerolox.testing.cluster import Cluster

__all__ = ["Cluster"]
