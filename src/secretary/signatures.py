"""The signatures of webhooks (Standard Webhooks 1.0), for those who sign and those who verify."""

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """One signature for each secret: while a client changes its secret, it may name both."""
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return " ".join(f"v1,{_mac(key, signed)}" for key in keys_of(secret))


def keys_of(secret: str) -> list[bytes]:
    """The keys of `whsec_…`, or of several, with spaces between them. Anything else is a key as
    it stands."""
    try:
        keys = [_decoded(part) for part in secret.split()]
    except ValueError:
        keys = []
    return keys or [secret.encode()]


def _decoded(text: str) -> bytes:
    encoded = text.removeprefix(PREFIX)
    if encoded == text or not encoded:
        raise ValueError("It has not the form whsec_…")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError("It is not base64") from error


def _mac(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
