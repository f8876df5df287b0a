"""Building blocks of a long-lived process: services, clock, event loop, configuration, files, logging, metrics."""
