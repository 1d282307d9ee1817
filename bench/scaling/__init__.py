"""The parts of the scale benchmark: see `bench/scale.py`."""
