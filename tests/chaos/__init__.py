"""Chaos: faults of every kind, drawn from a seed, while jobs of every kind run; then the history
of each job is held against what was promised. `python -m tests.chaos --seed 7 --seconds 600`."""
