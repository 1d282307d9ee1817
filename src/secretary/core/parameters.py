"""Job parameters: how they are stored, how handlers read them, and which are secret."""

from collections.abc import Mapping
from typing import Any


def normalize_parameters(
    parameters: Mapping[str, Any], known: frozenset[str] | None
) -> dict[str, Any]:
    """Parameters as they are stored: undeclared keys move under `extra`.

    A nested `extra` is merged into its parent, whose values take precedence, so the function is
    idempotent. `known` is None when the job type declares no parameters.
    """
    top = {key: value for key, value in parameters.items() if key != "extra"}
    extra = _merged_extra(parameters.get("extra"))
    if not isinstance(extra, dict):
        return {**top, "extra": extra} if "extra" in parameters else top
    unknown = {key for key in top if known is not None and key not in known}
    extra = {key: value for key, value in extra.items() if key not in top or key in unknown}
    extra |= {key: top.pop(key) for key in list(top) if key in unknown}
    return {**top, "extra": extra} if extra or "extra" in parameters else top


def flatten_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as a handler reads them: `extra` is merged into the top level, which wins."""
    top = {key: value for key, value in parameters.items() if key != "extra"}
    extra = _merged_extra(parameters.get("extra"))
    return {**extra, **top} if isinstance(extra, dict) else dict(parameters)


def _merged_extra(extra: Any) -> Any:
    if extra is None:
        return {}
    while isinstance(extra, dict) and isinstance(extra.get("extra"), dict):
        inner = extra["extra"]
        extra = {**inner, **{key: value for key, value in extra.items() if key != "extra"}}
        if "extra" in inner:
            extra["extra"] = inner["extra"]
    return extra


#: Replaces secrets in every response.
MASK = "•••"

#: Suffixes of parameter names that mark a secret, for all job types: custom handlers declare their
#: own parameters, and clients send undeclared ones.
SECRET_SUFFIXES = (
    "password", "passwd", "passphrase", "secret", "token", "apikey", "authorization",
    "credential", "credentials",
)  # fmt: skip


def has_secrets(parameters: dict[str, Any]) -> bool:
    if any(map(_is_secret, parameters, parameters.values())):
        return True
    extra = parameters.get("extra")
    return isinstance(extra, dict) and has_secrets(extra)


def mask_secrets(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as responses show them: reading a job does not reveal its secrets."""
    return _replace_secrets(parameters, shown=MASK) if has_secrets(parameters) else parameters


def remove_secrets(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as they are stored once the job has finished."""
    return _replace_secrets(parameters, shown=None) if has_secrets(parameters) else parameters


def drop_masked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without masked values that a client has read and sends back."""
    return {name: value for name, value in parameters.items() if value != MASK}


def _replace_secrets(parameters: dict[str, Any], *, shown: str | None) -> dict[str, Any]:
    """Replace secrets with `shown`, or remove them if it is None; those under `extra` too."""
    secrets = {name for name, value in parameters.items() if _is_secret(name, value)}
    result = {name: value for name, value in parameters.items() if name not in secrets}
    if isinstance(extra := result.get("extra"), dict):
        result["extra"] = _replace_secrets(extra, shown=shown)
    return result if shown is None else result | dict.fromkeys(sorted(secrets), shown)


def _is_secret(name: str, value: Any) -> bool:
    # Called for each parameter of each job: a regular expression takes ten times as long.
    if not name.replace("_", "").lower().endswith(SECRET_SUFFIXES):
        return False
    return value is not None and not isinstance(value, bool)
