"""The subcommands of `kerolox`, one module each."""
