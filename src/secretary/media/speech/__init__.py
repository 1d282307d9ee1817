"""Speech recognition: voice activity detection, chunking, transcription."""
