"""From what the benchmarks found to the page that shows it: see `bench/run.py`."""
