"""What the exit code of a command says; docs/reference/cli.md has the same table."""

from enum import IntEnum

from ..errors import (
    AccessDenied,
    InvalidParameters,
    InvalidSettings,
    NotFound,
    RateLimited,
    SecretaryError,
    StoreUnavailable,
)


class ExitCode(IntEnum):
    FINE = 0
    FAILED = 1
    MISUSED = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    REFUSED = 5
    INTERRUPTED = 130


#: The first that fits; any other error of ours is FAILED.
OF_ERRORS: dict[type[SecretaryError], ExitCode] = {
    InvalidSettings: ExitCode.MISUSED,
    InvalidParameters: ExitCode.MISUSED,
    StoreUnavailable: ExitCode.UNREACHABLE,
    NotFound: ExitCode.NOT_FOUND,
    AccessDenied: ExitCode.REFUSED,
    RateLimited: ExitCode.REFUSED,
}


def exit_code(error: SecretaryError) -> ExitCode:
    fitting = (code for kind, code in OF_ERRORS.items() if isinstance(error, kind))
    return next(fitting, ExitCode.FAILED)
