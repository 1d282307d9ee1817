"""Recordings that the bench makes, and what is measured with them."""
