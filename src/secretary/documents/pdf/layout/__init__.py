"""Layout analysis of a page: text runs become lines, columns, tables and headings."""
