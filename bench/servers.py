"""The rows of the API benchmark: HTTP servers, each started in an empty directory."""

import json
import re
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapter import PEERS
from arena import Failed, environment
from processes import Tree

START_LIMIT_S, ANSWER_LIMIT_S = 30, 30
#: One job for all rows: Secretary's worker runs it on its loop and notes that in a file.
JOB = '{"job_type": "noop", "parameters": {"sent": 1}}'
HANDLERS = "secretary_handlers:register_on_loop"


@dataclass(frozen=True)
class Server:
    name: str
    command: tuple[str, ...]
    bare: bool = False
    """A yardstick, and not ours."""
    settings: dict[str, str] = field(default_factory=lambda: {"SECRETARY_HANDLERS": HANDLERS})


SERVE = (sys.executable, "-m", "secretary", "serve", "--port", "0", "--data-dir", "data")
BARE = (sys.executable, str(PEERS / "bare_api.py"))
WITHOUT_WORKER = Server("secretary", (*SERVE, "--no-worker"))
SERVERS = [
    WITHOUT_WORKER,
    Server("secretary, at work", SERVE),
    Server("bare, direct", (*BARE, "direct"), bare=True),
    Server("bare, thread", (*BARE, "thread"), bare=True),
]


@dataclass(frozen=True)
class Running:
    url: str
    tree: Tree
    #: Where it was started.
    directory: Path

    def post(self, path: str, body: Any) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=ANSWER_LIMIT_S) as answer:
            document: dict[str, Any] = json.load(answer)
        return document


@contextmanager
def running(server: Server, root: Path) -> Iterator[Running]:
    directory = Path(tempfile.mkdtemp(prefix="server-", dir=root))
    env = environment(directory) | server.settings
    log = directory / "server.log"
    tree = Tree(server.command, directory=directory, env=env, output=log)
    try:
        yield Running(_url(tree, log), tree, directory)
    finally:
        tree.kill()
        shutil.rmtree(directory, ignore_errors=True)


def _url(tree: Tree, log: Path) -> str:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and tree.running():
        if found := re.search(r"listens on (http://\S+)", log.read_text()):
            return found[1]
        time.sleep(0.02)
    raise Failed(f"the server did not start: {log.read_text().strip()[-200:]}")
