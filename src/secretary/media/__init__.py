"""Reads recordings: ffmpeg, speech recognition, slides, subtitles, yt-dlp."""
