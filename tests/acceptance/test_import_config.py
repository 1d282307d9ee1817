"""Operators of the previous service bring their config file along."""

import shutil
import stat
from pathlib import Path

import pytest
import yaml

from .program import Program

EXAMPLE = Path(__file__).parents[1] / "legacy_config.yaml"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    shutil.copy(EXAMPLE, tmp_path / "old.yaml")
    (tmp_path / "templates").mkdir()
    return Program(tmp_path, SECRETARY_SERVICE_API_KEY="right", OPENAI_API_KEY="sk-environment")


def test_the_service_starts_with_the_imported_settings(program: Program) -> None:
    done = program.run("import-config", "old.yaml", "--output", "secretary.yaml")
    assert (done.code, done.out) == (0, "")
    lines = done.err.splitlines()
    assert lines[0] == "The settings are in secretary.yaml"
    assert "  server.debug: set logging.level to debug" in lines
    assert "  somewhere.else: unknown" in lines
    assert "  OPENAI_API_KEY (set): the key of llm.providers.openai" in lines
    assert any(line.startswith("  OPENROUTER_API_KEY (not set): ") for line in lines)
    assert any(line.startswith("  SECRETARY_SERVICE_API_KEY (set): ") for line in lines)
    assert "sk-" not in done.err
    file = program.directory / "secretary.yaml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "sk-" not in file.read_text()
    arguments = ("--config", "secretary.yaml", "--host", "127.0.0.1")
    with program.serving(*arguments) as service:
        key = {"X-Secretary-Api-Key": "right"}
        data = service.get("/api/system", headers=key).json()["data"]
        settings = data["settings"]
        assert settings["documents"]["max_pages"] == 2000
        assert settings["templates"]["directory"] == "templates"
        assert settings["llm"]["transcription_model"] == "whisper-1"
        engines = {one["subject"]: one["fact"] for one in data["engines"]}
        assert engines["transcription"] == "whisper-1 at https://api.openai.com/v1, with a key"


def test_without_an_output_file_the_settings_are_printed(program: Program) -> None:
    done = program.run("import-config", "old.yaml")
    assert done.code == 0
    assert yaml.safe_load(done.out)["server"] == {"host": "0.0.0.0", "port": 5001}
    assert "Without a counterpart:" in done.err


def test_an_existing_file_is_only_replaced_on_request(program: Program) -> None:
    file = program.directory / "secretary.yaml"
    file.write_text("precious")
    done = program.run("import-config", "old.yaml", "--output", "secretary.yaml")
    assert (done.code, done.err) == (1, "secretary.yaml exists; --force replaces it\n")
    assert file.read_text() == "precious"
    done = program.run("import-config", "old.yaml", "--output", "secretary.yaml", "--force")
    assert done.code == 0
    assert yaml.safe_load(file.read_text())["server"]["port"] == 5001
    assert [path.name for path in program.directory.glob(".*")] == []
    before = EXAMPLE.read_text()
    done = program.run("import-config", "old.yaml", "--output", "./old.yaml", "--force")
    assert (done.code, "another file" in done.err) == (2, True)
    assert (program.directory / "old.yaml").read_text() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("server: [", "bad.yaml is not valid YAML in line 1\n"),
        ("", "bad.yaml is empty\n"),
        ("server: {port: x}", "  server.port: must be an integer\n"),
        ("other: 1", "bad.yaml has no settings of the previous service"),
    ],
)
def test_a_file_that_cannot_be_imported_is_a_usage_error(
    program: Program, content: str, message: str
) -> None:
    (program.directory / "bad.yaml").write_text(content)
    done = program.run("import-config", "bad.yaml", "--output", "secretary.yaml")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (program.directory / "secretary.yaml").exists()


def test_a_missing_file_and_a_missing_directory_are_named(program: Program) -> None:
    done = program.run("import-config", "none.yaml")
    assert (done.code, done.err) == (2, "none.yaml cannot be read: No such file or directory\n")
    done = program.run("import-config", "old.yaml", "--output", "nowhere/secretary.yaml")
    assert (done.code, "No such file or directory" in done.err) == (1, True)
