"""HTTP servers in threads of this process, which the program calls or downloads from."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


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


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass
