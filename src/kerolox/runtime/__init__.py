"""What any long-lived process needs: services, clock, configuration, lanes, files."""
