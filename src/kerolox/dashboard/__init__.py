"""The dashboard: a cluster in a browser, on the admin client. Needs the extra `dashboard`."""
