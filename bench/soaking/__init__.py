"""A long run at full load: what is handed in, what is measured, and whether it stays flat."""
