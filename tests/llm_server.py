"""A server on loopback that speaks OpenAI's protocol, with scripted answers and faults."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import policy
from email.parser import BytesParser
from typing import Any

from secretary.llm import LlmOptions, Model, Price, Provider

from .web_server import Web, WebRequest, serving

KEY = "sk-a-key-nobody-may-see-1234567890"

Reply = Callable[[WebRequest], Awaitable[None]]


@dataclass(frozen=True)
class Reads:
    """A reply that depends on the request."""

    reply: Callable[[dict[str, Any]], Reply]


def says(
    content: str | None, *, finish_reason: str = "stop", usage: bool = True, **message: Any
) -> Reply:
    """An answer of the model, with 100 and 20 tokens."""
    document: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
    }
    if usage:
        document["usage"] = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return gives(json.dumps(document).encode())


def heard(*segments: tuple[float, float, str], **answer: Any) -> Reply:
    """A verbose transcription."""
    segment_documents = [
        {"id": number, "start": start, "end": end, "text": text, "avg_logprob": -0.25}
        for number, (start, end, text) in enumerate(segments)
    ]
    text = " ".join(text for _, _, text in segments)
    document = {
        "task": "transcribe",
        "language": "english",
        "text": text,
        "segments": segment_documents,
    }
    return gives(json.dumps({**document, **answer}).encode())


def fails(status: str, message: str = "", **headers: str) -> Reply:
    """An error in OpenAI's format; `Retry_After` is the header with a hyphen."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": None}}).encode()
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return gives(body, status=status, headers=fields)


def gives(
    body: bytes, *, status: str = "200 OK", headers: Mapping[str, str] | None = None
) -> Reply:
    async def reply(request: WebRequest) -> None:
        fields = {"Content-Type": "application/json", **(headers or {})}
        await request.answer(body, status=status, headers=fields)

    return reply


async def hangs(request: WebRequest) -> None:
    await asyncio.sleep(60)


async def hangs_up(request: WebRequest) -> None:
    request.writer.transport.abort()


async def echoes_the_key(request: WebRequest) -> None:
    message = (
        f"Bad request from {request.headers['authorization']}, key {KEY[:12]}...{KEY[-6:]}: no"
    )
    await fails("400 Bad Request", message)(request)


@dataclass
class LlmServer:
    web: Web
    requests: list[dict[str, Any]] = field(default_factory=list)
    #: The highest number of concurrent requests.
    most_at_once: int = 0
    #: How many were aborted by the client.
    given_up: int = 0

    def provider(self, **options: Any) -> Provider:
        given = {"setting": "llm", "api_key": KEY, "timeout_sec": 20, **options}
        return Provider(base_url=self.web.url("/v1"), **given)

    def options(
        self,
        *,
        parameters: Mapping[str, Any] | None = None,
        price: Price | None = None,
        **options: Any,
    ) -> LlmOptions:
        provider = self.provider(**options)
        model = Model(provider=provider, name="scripted", parameters=parameters or {}, price=price)
        return LlmOptions({"chat": model, "vision": model, "transcription": model})


def parse_form(request: WebRequest) -> Callable[[bytes], dict[str, Any]]:
    """Parses a multipart form: its fields as texts, its file as name and content."""

    def read(body: bytes) -> dict[str, Any]:
        head = f"Content-Type: {request.headers.get('content-type')}\r\n\r\n".encode()
        form: dict[str, Any] = {}
        for part in BytesParser(policy=policy.HTTP).parsebytes(head + body).iter_parts():
            name = part.get_param("name", header="content-disposition")
            content = part.get_payload(decode=True)
            assert isinstance(name, str) and isinstance(content, bytes) and name not in form
            file_name = part.get_filename()
            form[name] = (file_name, content) if file_name else content.decode()
        return form

    return read


@asynccontextmanager
async def llm_server(*replies: Reply | Reads) -> AsyncIterator[LlmServer]:
    """Reply to the requests one by one like this; the last reply is used for all that follow."""
    script = list(replies)
    at_once = 0

    async def answer(request: WebRequest) -> None:
        nonlocal at_once
        read = {
            "/v1/chat/completions": json.loads,
            "/v1/ocr": json.loads,
            "/v1/audio/transcriptions": parse_form(request),
        }
        server.requests.append(
            {**read[request.target](await request.body()), "headers": request.headers}
        )
        next_one = script.pop(0) if len(script) > 1 else script[0]
        reply = next_one.reply(server.requests[-1]) if isinstance(next_one, Reads) else next_one
        at_once += 1
        server.most_at_once = max(server.most_at_once, at_once)
        try:
            await _unless_given_up(reply(request), request)
        finally:
            at_once -= 1

    async def _unless_given_up(reply: Awaitable[None], request: WebRequest) -> None:
        replying, gone = asyncio.ensure_future(reply), asyncio.ensure_future(request.reader.read(1))
        await asyncio.wait({replying, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not replying.done():
            server.given_up += 1
            request.writer.close()
        for each in (replying, gone):
            each.cancel()
        await asyncio.gather(replying, gone, return_exceptions=True)

    async with serving(answer) as web:
        server = LlmServer(web)
        yield server
