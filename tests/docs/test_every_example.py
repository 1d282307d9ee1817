"""Every example of README and docs is run: commands and programs against a real service, settings
and documents by what parses them. New examples are run without being listed here."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from secretary.config import load
from secretary.jobs.submission import BatchRequest, parse_request
from tests.acceptance.program import Running
from tests.conference_schedules import FOSDEM
from tests.http_servers import chat_model
from tests.minimal_files import PNG, pdf
from tests.requirements import needed

from .examples import STAYS, Example, Terminal, blocks, examples

HOW_TO, REFERENCE, TUTORIAL = "docs/how-to", "docs/reference", "docs/tutorial/first-job.md"
CONFERENCE = f"{HOW_TO}/import-a-conference.md"
CLIENT = f"{REFERENCE}/client.md"
MODEL_ROUTES = f"{HOW_TO}/use-model-routes.md"
WITH_CLIENT = """\
from secretary.client import Client

with Client("http://127.0.0.1:5000") as client:
    """
MOVE = f"{HOW_TO}/move-from-common-secretary.md"
LEGACY_CONFIG = Path(__file__).parents[1] / "legacy_config.yaml"
CHOSEN = "secretary import schedule.xml --track 'Main*' --day saturday"
#: Examples that no test runs, and why, by page and beginning.
COPY = "secretary store copy ./data mongodb://db.example.org/secretary"
NOT_RUN = {
    ("README.md", "make run"): "it installs everything; test_examples looks at the Makefile",
    (TUTORIAL, "make run"): "the same",
    (
        CONFERENCE,
        "curl http://127.0.0.1:5000/api/batches/from-schedule -H",
    ): "it asks the world for a schedule",
    (CONFERENCE, "curl -X POST 'http://127.0.0.1:5000/api/tracks"): "test_tracks does, with talks",
    (f"{REFERENCE}/tracks.md", "curl http://127.0.0.1:5000/api/tracks/Main"): "the same",
    (f"{HOW_TO}/import-from-video-sites.md", "pip install 'sec"): "it changes the installation",
    (f"{HOW_TO}/import-from-video-sites.md", "pip install -U"): "the same",
    (f"{HOW_TO}/run-on-several-machines.md", "pip install 'sec"): "the same",
    (f"{HOW_TO}/move-to-mongodb.md", f"{COPY} --dry"): "test_store_copy runs it",
    (f"{HOW_TO}/move-to-mongodb.md", f"{COPY} --verify"): "the same",
    (f"{HOW_TO}/move-to-mongodb.md", f"{COPY} --to-files"): "the same",
    (f"{HOW_TO}/move-to-mongodb.md", "secretary store copy mongodb"): "the same",
    (f"{HOW_TO}/move-to-mongodb.md", "export MONGODB_URI"): "the same",
    (f"{HOW_TO}/move-to-mongodb.md", "secretary import-legacy"): "test_import_legacy runs it",
    (MOVE, "secretary import-legacy"): "the same",
    (
        "docs/explanation/fuzzing.md",
        "make fuzz\n",
    ): "it takes minutes; test_damaged_files runs some",
    ("docs/explanation/fuzzing.md", 'make fuzz ARGS="--case'): "it repeats what was found",
    ("docs/explanation/endurance.md", "make chaos"): "it takes minutes; test_chaos runs it shorter",
    (f"{HOW_TO}/run-with-mongodb.md", "mongod "): "the system's database; we have tests/mongod.py",
}
#: Examples with their own test, and its file.
ELSEWHERE = {
    (f"{HOW_TO}/connect-a-local-llm.md", "curl "): "test_local_llm.py",
    (f"{HOW_TO}/receive-webhooks.md", "from http.server"): "test_client_page.py",
    (f"{HOW_TO}/receive-webhooks.md", "from secretary.client"): "test_client_page.py",
    (f"{HOW_TO}/write-a-handler.md", "PYTHONPATH"): "test_examples.py",
}
#: Languages whose examples other tests cover.
READ_BY = {"json": "test_documents.py", "js": "test_examples.py", "markdown": "test_examples.py"}
RUN_HERE = {"sh", "python", "yaml"}
#: Output, diagrams, and files of other programs.
NOT_TO_RUN = {"text"}
#: Patterns in the output of an example, and how often each must occur at least.
EXPECTED = {
    ("README.md", ".venv/bin/secretary convert"): {r"document\.md": 1},
    ("README.md", "curl -F file=@document.pdf '"): {r'"--- Seite 1 ---\\nHello"': 1},
    ("README.md", "curl -F file=@document.pdf h"): {'"accepted"': 1, '"status":"success"': 1},
    ("README.md", "export PATH"): {r"status +completed": 1, r"workers +ok": 1},
    ("README.md", "from secretary.client"): {"--- Seite 1 ---\nHello": 1},
    (TUTORIAL, "curl"): {"My first job": 1},
    (TUTORIAL, "secretary submit selftest -p seconds=2"): {r"status +completed": 1},
    (TUTORIAL, "secretary submit selftest -p seconds=-1"): {"UNKNOWN_JOB_TYPE": 1},
    (TUTORIAL, "cat > batch.yaml"): {"Three jobs": 1},
    (CONFERENCE, f"{CHOSEN} --dry-run"): {"Gardens of code": 1},
    (CONFERENCE, f"{CHOSEN} -p template"): {"^batch-": 1},
    (CONFERENCE, "secretary import schedule.xml --dry-run"): {'"total_jobs":3': 1},
    (CONFERENCE, "curl http://127.0.0.1:5000/api/batches/from-schedule -F"): {'"total_jobs":1': 1},
    (f"{HOW_TO}/write-a-template.md", "curl"): {"# The bridge will be open in May": 1},
    (
        f"{MODEL_ROUTES}",
        "curl http://127.0.0.1:5000/api/transformer/chat -H 'Content-Type:"
        ' application/json\' \\\n  -d \'{"messages": [{"role": "user", "content": "What',
    ): {"The bridge will be open": 1},
    (MODEL_ROUTES, "curl http://127.0.0.1:5000/api/image-analyzer"): {'"image_count":2': 1},
    (MODEL_ROUTES, "curl http://127.0.0.1:5000/api/rag"): {'"embedding_dimensions":256': 1},
    (MODEL_ROUTES, "curl http://127.0.0.1:5000/api/text2image"): {'"image_base64":"iVBOR': 2},
    (f"{HOW_TO}/run-on-several-machines.md", "secretary doctor"): {r"workers +ok": 1},
    (f"{HOW_TO}/secure-it.md", "curl -s"): {"^200$": 1},
    (f"{HOW_TO}/secure-it.md", "curl http"): {'"user_id":"ann"': 1, '"read_access":\\["bob"\\]': 1},
    (MOVE, "secretary doctor"): {r"transcription +ok +whisper-1": 1},
    (MOVE, "SECRETARY_SERVICE_API_KEY"): {"Requests need an API key": 1},
    (f"{REFERENCE}/api.md", "curl http"): {'"job_name":"A test"': 1},
    (CLIENT, f'{WITH_CLIENT}job = client.submit("pdf'): {"--- Seite 1 ---\nHello\n": 1},
    (CLIENT, "import asyncio"): {"--- Seite 1 ---\nHello\n": 1},
    (CLIENT, "from secretary.client import Client, JobFailed"): {"'steps': 10": 1},
    (CLIENT, "from secretary.client import Client, Task"): {"completed 3\n": 1},
    (CLIENT, f"{WITH_CLIENT}client.submit"): {r"^completed (job|batch)-\S+ 100 ": 1},
    (f"{REFERENCE}/event-job.md", "curl"): {'"status":"success"': 2, "Two talks": 1},
    (f"{REFERENCE}/operations.md", "curl http://127.0.0.1:5000/api/jobs/bulk"): {'"success"': 1},
    (f"{REFERENCE}/ingress.md", "curl http://127.0.0.1:5000/api/batches"): {'"total_jobs":2': 1},
    (f"{REFERENCE}/ingress.md", "curl http://127.0.0.1:5000/api/pdf"): {
        '"accepted"': 2,
        r'"--- Seite 1 ---\\nHello"': 1,
    },
    (f"{REFERENCE}/streams.md", "curl -N"): {"^id: ": 1},
    (f"{REFERENCE}/webhooks.md", "curl"): {'"status":"success"': 1},
}
#: What the language model of the service says.
INTERVIEW = {
    "title": "The bridge will be open in May",
    "guest": "Ann",
    "date": None,
    "tags": ["bridge"],
    "lead": "Ann builds bridges.",
    "interview": "**When?**\n\nIn May.",
    "figures": [],
}
EXAMPLES = list(examples())


def in_table(example: Example, table: Any) -> bool:
    return any(example.is_at(page, start) for page, start in table)


def to_run(language: str) -> list[Any]:
    chosen = [one for one in EXAMPLES if one.language == language]
    return [
        pytest.param(one, id=str(one))
        for one in chosen
        if not in_table(one, NOT_RUN) and not in_table(one, ELSEWHERE)
    ]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """With the files that the pages assume."""
    needed("curl")
    directory = tmp_path_factory.mktemp("examples")
    for name in ("document", "report", "scan"):
        (directory / f"{name}.pdf").write_bytes(pdf("Hello"))
    shutil.copy(LEGACY_CONFIG, directory / "old-config.yaml")
    for name in ("front", "back"):
        (directory / f"{name}.png").write_bytes(PNG)
    (directory / "schedule.xml").write_text(FOSDEM)
    (directory / "interview.txt").write_text("Ann: The bridge will be open in May.\n")
    (template,) = blocks(f"{HOW_TO}/write-a-template.md", "markdown")
    (directory / "Interview.md").write_text(template)
    (handler,) = (code for code in blocks("README.md", "python") if "@handles" in code)
    (directory / "my_handlers.py").write_text(handler)
    terminal = Terminal(directory, SECRETARY_TEMPLATES__DIRECTORY=str(directory))
    terminal.environment["PYTHONPATH"] += f"{os.pathsep}{directory}"
    return terminal


@pytest.fixture(scope="module")
def service(terminal: Terminal) -> Iterator[Running]:
    terminal.environment["SECRETARY_HANDLERS"] = "my_handlers"
    with chat_model(INTERVIEW) as model:
        terminal.environment["SECRETARY_LLM__BASE_URL"] = model
        for purpose in ("", "EMBEDDING_", "IMAGE_"):
            terminal.environment[f"SECRETARY_LLM__{purpose}MODEL"] = "scripted"
        with terminal.program.serving() as service:
            yield service


class TestAllAreCovered:
    def test_every_block_says_what_it_is(self) -> None:
        covered = RUN_HERE | NOT_TO_RUN | READ_BY.keys()
        assert [str(one) for one in EXAMPLES if one.language not in covered] == []

    def test_what_can_be_run_is_not_passed_off_as_text(self) -> None:
        commands = re.compile(r"^(secretary|curl|make|pip|export|from|import) ")
        texts = [one for one in EXAMPLES if one.language in NOT_TO_RUN]
        assert [str(one) for one in texts if commands.match(one.text)] == []

    @pytest.mark.parametrize("table", [NOT_RUN, ELSEWHERE, EXPECTED])
    def test_no_list_names_what_is_not_there(self, table: dict[tuple[str, str], Any]) -> None:
        counts = {key: sum(one.is_at(*key) for one in EXAMPLES) for key in table}
        assert [key for key, number in counts.items() if number != 1] == []

    @pytest.mark.parametrize("file", sorted({*ELSEWHERE.values(), *READ_BY.values()}))
    def test_the_other_tests_are_there(self, file: str) -> None:
        assert Path(__file__).with_name(file).exists()


@pytest.mark.parametrize("example", to_run("sh"))
def test_commands_work(example: Example, terminal: Terminal, service: Running) -> None:
    output = ""
    if any(STAYS.match(line) for line in example.text.splitlines()):
        for line in example.text.splitlines():
            output += (
                terminal.start(line) if STAYS.match(line) else terminal.type(line, service.url)
            )
    else:
        output = terminal.type(example.text, service.url)
    require_expected(example, output)
    if settings := assigned(example.text):
        load(None, environment=settings)


def assigned(text: str) -> dict[str, str]:
    """The settings that the lines of an example put into the environment."""
    words = shlex.split(text.replace("$(openssl rand -hex 32)", "0" * 64), comments=True)
    pairs = [word.partition("=") for word in words]
    return {
        name: value.replace("…", "1")
        for name, equals, value in pairs
        if equals and re.fullmatch("SECRETARY_[A-Z_]+|MONGODB_URI", name)
    }


@pytest.mark.parametrize("example", to_run("python"))
def test_programs_work(example: Example, terminal: Terminal, service: Running) -> None:
    require_expected(example, terminal.run_python(example.text, service.url))


@pytest.mark.parametrize("example", to_run("yaml"))
def test_settings_and_batches_are_accepted(example: Example, tmp_path: Path) -> None:
    document = yaml.safe_load(example.text)
    if "jobs" in document:
        parse_request(BatchRequest, document)
        return
    file = tmp_path / "config.yaml"
    file.write_text(example.text.replace("…", "1"))
    load(file, environment={})


def require_expected(example: Example, output: str) -> None:
    for key, patterns in EXPECTED.items():
        if example.is_at(*key):
            for pattern, times in patterns.items():
                assert len(re.findall(pattern, output, re.MULTILINE)) >= times, output


class TestTheHandlerOfTheReadme:
    def test_it_has_five_lines(self) -> None:
        (code,) = (code for code in blocks("README.md", "python") if "@handles" in code)
        assert len([line for line in code.splitlines() if line]) == 5

    def test_it_counts(self, service: Running) -> None:
        job_id = service.submit(job_type="count", parameters={"text": "one two three"})
        job = service.wait_until(job_id, "completed", "failed")
        assert job["results"]["structured_data"] == {"words": 3}
