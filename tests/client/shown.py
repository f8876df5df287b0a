"""What tests have counted, for whoever reads the end of their output."""

Shown = list[str]
