"""Recovery at startup: checkpoint, checksums, damaged ranges, derived files."""
