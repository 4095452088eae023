"""Triad beside other engines, on the same orders: what benchmarks/compare.py is made of."""
