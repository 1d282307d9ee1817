"""Copies data between stores and imports it from the older service."""
