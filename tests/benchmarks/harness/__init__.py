"""The parts of tests/benchmarks/compare.py, which measures Triad and other engines on the same orders."""
