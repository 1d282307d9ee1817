"""Reads web pages: conference talks, schedules, articles."""
