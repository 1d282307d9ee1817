"""Recordings from web pages and video sites, fetched with yt-dlp.

Imports nothing: most recordings are files.
"""
