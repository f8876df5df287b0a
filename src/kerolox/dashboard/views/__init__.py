"""View helpers that several pages share."""
