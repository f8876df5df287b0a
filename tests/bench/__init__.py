"""Tests of the benchmarks' own parts."""
