"""`python -m kerolox`."""

from kerolox.cli.app import main

main(prog_name="kerolox")
