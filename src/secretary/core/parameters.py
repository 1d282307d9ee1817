"""The parameters of a job as they are stored, and as a handler reads them."""

from collections.abc import Mapping
from typing import Any


def normalize_parameters(
    parameters: Mapping[str, Any], known: frozenset[str] | None
) -> dict[str, Any]:
    """Parameters as they are stored: as sent, but keys that nobody declared move under `extra`.

    A nested `extra` is folded into its parent and the outer value wins, so that doing
    this again changes nothing. `known` is None when the job type declares no parameters.
    """
    top = {key: value for key, value in parameters.items() if key != "extra"}
    extra = _folded(parameters.get("extra"))
    if not isinstance(extra, dict):
        return {**top, "extra": extra} if "extra" in parameters else top
    unknown = {key for key in top if known is not None and key not in known}
    extra = {key: value for key, value in extra.items() if key not in top or key in unknown}
    extra |= {key: top.pop(key) for key in list(top) if key in unknown}
    return {**top, "extra": extra} if extra or "extra" in parameters else top


def flatten_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as a handler reads them: `extra` spread out, the top level wins."""
    top = {key: value for key, value in parameters.items() if key != "extra"}
    extra = _folded(parameters.get("extra"))
    return {**extra, **top} if isinstance(extra, dict) else dict(parameters)


def _folded(extra: Any) -> Any:
    if extra is None:
        return {}
    while isinstance(extra, dict) and isinstance(extra.get("extra"), dict):
        inner = extra["extra"]
        extra = {**inner, **{key: value for key, value in extra.items() if key != "extra"}}
        if "extra" in inner:
            extra["extra"] = inner["extra"]
    return extra


#: Stands in every answer for a secret that was given.
MASK = "•••"

#: How the names of secrets end, whatever the job type: handlers from outside have theirs, and
#: clients send what nobody asked for.
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
    """As they are shown: who may read a job is not thereby trusted with its secrets."""
    return _treated(parameters, shown=MASK) if has_secrets(parameters) else parameters


def remove_secrets(parameters: dict[str, Any]) -> dict[str, Any]:
    """As they are kept once the job has done its work, which is what they were for."""
    return _treated(parameters, shown=None) if has_secrets(parameters) else parameters


def drop_masked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a client has read and sends back: it does not know the secret."""
    return {name: value for name, value in parameters.items() if value != MASK}


def _treated(parameters: dict[str, Any], *, shown: str | None) -> dict[str, Any]:
    """Also those under `extra`, where what nobody declared is kept. With None they are left out."""
    secrets = {name for name, value in parameters.items() if _is_secret(name, value)}
    told = {name: value for name, value in parameters.items() if name not in secrets}
    if isinstance(extra := told.get("extra"), dict):
        told["extra"] = _treated(extra, shown=shown)
    return told if shown is None else told | dict.fromkeys(sorted(secrets), shown)


def _is_secret(name: str, value: Any) -> bool:
    # Asked for each parameter of each job: a pattern would take ten times as long.
    if not name.replace("_", "").lower().endswith(SECRET_SUFFIXES):
        return False
    return value is not None and not isinstance(value, bool)
