"""Speech in a long recording: where it is, how it is cut, what is said."""
