"""Chaos tests: random faults, drawn from a seed, while jobs of all types run; then the history of
each job is checked against the guarantees. `python -m tests.chaos --seed 7 --seconds 600`."""
