"""Triad beside other engines, on the same orders: what tests/benchmarks/compare.py is made of."""
