"""What is signed with any secret can be verified with it, and nothing else."""

import json
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from secretary.client import WebhookRefused, verify_webhook
from secretary.core.http_headers import webhook_signature

from ..strategies import ANY_TEXT, TEXT

#: Including secrets with several parts, without base64, and with only whitespace.
SECRETS = (
    TEXT
    | st.binary(min_size=1, max_size=40).map(lambda key: f"whsec_{key.hex()}")
    | st.lists(st.sampled_from(["whsec_YWJj", "whsec_", "whsec_====", "abc", " ", "\u2003"])).map(
        " ".join
    )
).filter(bool)
BODY = json.dumps({"phase": "completed", "status": "completed"}).encode()


def headers(secret: str, body: bytes) -> dict[str, str]:
    now = str(int(time.time()))
    signed = webhook_signature(secret, "msg_1", now, body)
    return {"Webhook-Id": "msg_1", "Webhook-Timestamp": now, "Webhook-Signature": signed}


@given(SECRETS)
def test_who_knows_the_secret_verifies_what_was_sent(secret: str) -> None:
    sent = headers(secret, BODY)
    assert sent["Webhook-Signature"], "no event is sent with an empty signature"
    assume(secret.strip())
    assert verify_webhook(BODY, sent, secret).phase == "completed"
    with pytest.raises(WebhookRefused):
        verify_webhook(BODY + b" ", sent, secret)


@given(
    st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]),
        ANY_TEXT | st.integers().map(str) | st.builds(lambda: str(int(time.time()))),
    ),
    st.binary(max_size=60),
)
def test_nothing_that_was_not_signed_is_believed(
    given_headers: dict[str, str], body: bytes
) -> None:
    with pytest.raises(WebhookRefused):
        verify_webhook(body, given_headers, "whsec_c2VjcmV0")
