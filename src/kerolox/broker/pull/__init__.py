"""Pull requests: message filters, bulk responses and slow consumers."""
