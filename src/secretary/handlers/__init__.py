"""The built-in job types. Each is a module here and a name in `BUILTIN`."""

from .audio import audio
from .chat import chat
from .embedding import embedding
from .imageanalyzer import imageanalyzer
from .imageocr import imageocr
from .office import office
from .pdf import pdf
from .selftest import selftest
from .session import session
from .text2image import text2image
from .track import track
from .transformer import transformer
from .video import video

BUILTIN = (
    audio,
    chat,
    embedding,
    imageanalyzer,
    imageocr,
    office,
    pdf,
    selftest,
    session,
    text2image,
    track,
    transformer,
    video,
)
