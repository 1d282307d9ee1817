"""The built-in job types. Each is a module here and a name in `BUILTIN`."""

from .audio import audio
from .imageocr import imageocr
from .office import office
from .pdf import pdf
from .selftest import selftest
from .session import session
from .track import track
from .transformer import transformer
from .video import video

BUILTIN = (audio, imageocr, office, pdf, selftest, session, track, transformer, video)
