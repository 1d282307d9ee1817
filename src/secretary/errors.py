"""The errors that handlers raise and callers catch; defined in `secretary.core.errors`."""

from .core.errors import AccessDenied as AccessDenied
from .core.errors import Conflict as Conflict
from .core.errors import DownloadFailed as DownloadFailed
from .core.errors import EngineUnavailable as EngineUnavailable
from .core.errors import FileCorrupt as FileCorrupt
from .core.errors import FileEncrypted as FileEncrypted
from .core.errors import FileTooLarge as FileTooLarge
from .core.errors import InvalidParameters as InvalidParameters
from .core.errors import JobFailed as JobFailed
from .core.errors import NotFound as NotFound
from .core.errors import OutOfMemory as OutOfMemory
from .core.errors import ProcessingTimeout as ProcessingTimeout
from .core.errors import SecretaryError as SecretaryError
from .core.errors import StoreUnavailable as StoreUnavailable
from .core.errors import UnknownJobType as UnknownJobType
from .core.errors import UnsupportedFile as UnsupportedFile
from .core.errors import UpstreamFailed as UpstreamFailed
from .core.errors import WorkerCrashed as WorkerCrashed
