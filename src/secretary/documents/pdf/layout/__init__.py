"""The layout of a page: words with their places become lines, columns, tables, headings."""
