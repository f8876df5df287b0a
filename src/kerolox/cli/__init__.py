"""Command-line tools: `kerolox`, `mqadmin`, `mqbroker` and `mqnamesrv`."""
