"""Who may do what: signatures on requests."""
