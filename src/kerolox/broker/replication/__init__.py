"""Masters and slaves: what a slave refuses, and what it copies besides the log."""
