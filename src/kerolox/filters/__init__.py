"""Which messages a consumer wants, by an SQL92 expression over their properties."""
