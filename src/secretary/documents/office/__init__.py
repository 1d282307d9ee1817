"""Reads office files into `blocks`, with one module per format, and renders them as Markdown."""
