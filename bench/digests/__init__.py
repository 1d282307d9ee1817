"""What is kept of all the samples of a part, for the page: one module for each part.

Each has `digest(found)`, where `found` is what the part's program writes with `--json`, by the
name of the step."""
