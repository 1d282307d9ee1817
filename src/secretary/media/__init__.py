"""Sound and moving pictures."""
