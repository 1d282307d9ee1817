"""The work itself. Processors know files and engines, never jobs."""
