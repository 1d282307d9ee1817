"""Reads documents: PDF, office files and images. Knows files and engines, never jobs."""
