"""HTTP servers in threads of this process, which the program calls or downloads from."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .minimal_files import PNG


@contextmanager
def listening(server: ThreadingHTTPServer) -> Iterator[str]:
    """The URL of the server, while it runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answering(handler: Callable[..., BaseHTTPRequestHandler]) -> AbstractContextManager[str]:
    return listening(ThreadingHTTPServer(("127.0.0.1", 0), handler))


def files_in(directory: Path) -> AbstractContextManager[str]:
    return answering(partial(_Quiet, directory=str(directory)))


@contextmanager
def chat_model(answer: object) -> Iterator[str]:
    """The base URL of an endpoint whose chat model gives the same answer to everything. It also
    returns embeddings and images."""
    with answering(type("Model", (_ChatModel,), {"answer": answer})) as url:
        yield f"{url}/v1"


class _ChatModel(BaseHTTPRequestHandler):
    answer: object

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/embeddings":
            vector = [0.5] * request.get("dimensions", 8)
            vectors = [{"index": n, "embedding": vector} for n in range(len(request["input"]))]
            self._send({"data": vectors, "usage": {"prompt_tokens": 1, "total_tokens": 1}})
        elif self.path == "/v1/images/generations":
            self._send({"data": [{"b64_json": base64.b64encode(PNG).decode()}]})
        else:
            self._send(self._completion())

    def _completion(self) -> object:
        message = {"role": "assistant", "content": json.dumps(self.answer)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        completion = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        return {**completion, "choices": [choice], "usage": usage}

    def _send(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass
