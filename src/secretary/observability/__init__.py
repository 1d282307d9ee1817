"""Metrics, tracing, logging, health and diagnostics."""
