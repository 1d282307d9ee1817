"""A day of jobs in virtual time: see `bench/simulate.py`."""
