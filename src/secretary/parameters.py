"""The parameters of a job as they are stored, and as a handler reads them."""

from collections.abc import Mapping
from typing import Any


def tidy_parameters(parameters: Mapping[str, Any], known: frozenset[str] | None) -> dict[str, Any]:
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


def flat_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
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
