"""Reads documents: PDF, office files and images. Independent of jobs."""
