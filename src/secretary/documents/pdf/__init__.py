"""PDF files: opened, read and drawn. PDFium is not thread-safe: only in a process of its own."""
