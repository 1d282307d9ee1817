"""Optical character recognition: engines, preprocessing, layout."""
