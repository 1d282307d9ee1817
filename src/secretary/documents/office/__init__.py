"""Office files as Markdown: one module for each family, all of which speak in `blocks`."""
