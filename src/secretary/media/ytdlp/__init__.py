"""Recordings from pages and video sites, fetched by the program yt-dlp.

Nothing is imported here: most who ask for a recording have a file.
"""
