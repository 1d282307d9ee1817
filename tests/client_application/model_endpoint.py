"""An OpenAI-compatible endpoint for chat, vision, speech, embeddings and images, by fixed rules."""

import base64
import hashlib
import io
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

from PIL import Image

from ..http_servers import answering

DEFAULT_DIMENSIONS = 1024
#: What it hears in every recording.
HEARD = "Guten Tag, das Wetter ist heute schön, und wir gehen in den Garten."


class ModelEndpoint:
    """Answers requests and keeps them."""

    def __init__(self) -> None:
        self.url = ""
        #: How many seconds it looks at a picture.
        self.vision_seconds = 0.0
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((path, request))
        if "image_url" in json.dumps(request.get("messages", [])):
            time.sleep(self.vision_seconds)
        answers = {
            "/v1/chat/completions": chat,
            "/v1/embeddings": embeddings,
            "/v1/images/generations": images,
            "/v1/audio/transcriptions": transcription,
        }
        return answers[path](request)

    def last(self, path: str) -> dict[str, Any]:
        return next(request for at, request in reversed(self.requests) if at == path)


def chat(request: Mapping[str, Any]) -> dict[str, Any]:
    form = request.get("response_format", {"type": "text"})
    if form["type"] == "json_schema":
        content = json.dumps(filled(form["json_schema"]["schema"]), ensure_ascii=False)
    elif form["type"] == "json_object":
        content = json.dumps({"answer": "Ja.", "suggestedQuestions": ["Warum?"]})
    else:
        content = "Was das Modell liest."
    choice = {"index": 0, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [{**choice, "message": {"role": "assistant", "content": content}}],
        "usage": usage,
    }


def filled(schema: Mapping[str, Any], name: str = "answer") -> Any:
    """A value that matches the schema."""
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return filled(schema[key][0], name)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    kind = next(each for each in kind if each != "null") if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {field: filled(part, field) for field, part in properties.items()}
    if kind == "array":
        return [filled(schema.get("items", {"type": "string"}), name) for _ in range(2)]
    values = {"integer": 7, "number": 7.5, "boolean": True, "null": None}
    return values[kind] if kind in values else f'Über "{name}": ein Satz'[: schema.get("maxLength")]


def embeddings(request: Mapping[str, Any]) -> dict[str, Any]:
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    size = request.get("dimensions", DEFAULT_DIMENSIONS)
    data = [
        {"object": "embedding", "index": index, "embedding": vector(text, size)}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 10 * len(texts), "total_tokens": 10 * len(texts)}
    # The order is not promised.
    return {"object": "list", "model": request["model"], "data": data[::-1], "usage": usage}


def vector(text: str, size: int) -> list[float]:
    """The same for the same text."""
    digest = hashlib.sha256(text.encode()).digest()
    return [digest[place % len(digest)] / 255 for place in range(size)]


def images(request: Mapping[str, Any]) -> dict[str, Any]:
    width, _, height = request.get("size", "1024x1024").partition("x")
    file = io.BytesIO()
    Image.new("RGB", (int(width), int(height)), "navy").save(file, "PNG")
    image = {"b64_json": base64.b64encode(file.getvalue()).decode()}
    return {"created": 1, "data": [image] * request.get("n", 1)}


def transcription(request: Mapping[str, Any]) -> dict[str, Any]:
    segment = {"id": 0, "start": 0.0, "end": 4.0, "text": HEARD, "avg_logprob": -0.2}
    return {"task": "transcribe", "language": "german", "text": HEARD, "segments": [segment]}


@contextmanager
def model_endpoint() -> Iterator[ModelEndpoint]:
    endpoint = ModelEndpoint()
    with answering(partial(_Handler, endpoint)) as url:
        endpoint.url = f"{url}/v1"
        yield endpoint


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, endpoint: ModelEndpoint, *arguments: Any) -> None:
        self.endpoint = endpoint
        super().__init__(*arguments)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        is_json = self.headers["Content-Type"].startswith("application/json")
        request = json.loads(content) if is_json else {"form": content}
        body = json.dumps(self.endpoint.answer(self.path, request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
