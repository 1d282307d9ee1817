"""A server on loopback that speaks OpenAI's protocol, with scripted answers and faults."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import policy
from email.parser import BytesParser
from typing import Any, get_args

from secretary.llm import LlmOptions, Model, Price, Provider, Purpose

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


def vector_of(text: str, dimensions: int) -> list[float]:
    """A vector that depends on the text."""
    digest = hashlib.sha256(text.encode()).digest()
    return [digest[number % 32] / 256 for number in range(dimensions)]


def embeds(dimensions: int = 8, *, reverse: bool = True) -> Reads:
    """A vector for each text, of the requested length; `reverse`d, because only `index` tells the
    order. Each text counts 10 tokens."""

    def reply(request: dict[str, Any]) -> Reply:
        length = request.get("dimensions", dimensions)
        data = [
            {"object": "embedding", "index": number, "embedding": vector_of(text, length)}
            for number, text in enumerate(request["input"])
        ]
        tokens = 10 * len(data)
        document = {
            "object": "list",
            "data": data[::-1] if reverse else data,
            "model": request["model"],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        return gives(json.dumps(document).encode())

    return Reads(reply)


def draws(image: bytes | None = None, *, url: str | None = None) -> Reply:
    """A generated image, itself or as a URL."""
    encoded = base64.b64encode(image).decode() if image is not None else None
    data = {"b64_json": encoded, "url": url}
    data = {name: value for name, value in data.items() if value is not None}
    return gives(json.dumps({"created": 1, "data": [data]}).encode())


def rejects(parameter: str, otherwise: Reply | Reads) -> Reads:
    """An endpoint that does not know a parameter, as OpenAI says it."""

    def reply(request: dict[str, Any]) -> Reply:
        if parameter in request:
            message = f"Unknown parameter: '{parameter}'."
            error = {"message": message, "type": "invalid_request_error", "param": parameter}
            return gives(json.dumps({"error": error}).encode(), status="400 Bad Request")
        return otherwise.reply(request) if isinstance(otherwise, Reads) else otherwise

    return Reads(reply)


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
        return LlmOptions(dict.fromkeys(get_args(Purpose), model))


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


PATHS = frozenset(
    f"/v1/{path}"
    for path in (
        "chat/completions",
        "audio/transcriptions",
        "embeddings",
        "images/generations",
        "ocr",
    )
)


@asynccontextmanager
async def llm_server(*replies: Reply | Reads) -> AsyncIterator[LlmServer]:
    """Reply to the requests one by one like this; the last reply is used for all that follow."""
    script = list(replies)
    at_once = 0

    async def answer(request: WebRequest) -> None:
        nonlocal at_once
        read = parse_form(request) if request.target == "/v1/audio/transcriptions" else json.loads
        assert request.target in PATHS, request.target
        server.requests.append({**read(await request.body()), "headers": request.headers})
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
