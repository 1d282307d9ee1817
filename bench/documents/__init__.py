"""Documents whose text is known because the benchmark made them, and a scorer of what was read."""
