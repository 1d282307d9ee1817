"""Reads and renders PDF files. PDFium is not thread-safe: use it in a separate process."""
