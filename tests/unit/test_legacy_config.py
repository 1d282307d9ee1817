"""The config file of the previous service becomes settings of this one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from secretary.config import LlmSettings, Settings, load
from secretary.core.errors import InvalidSettings
from secretary.migration.legacy_config import (
    MAX_BYTES,
    REASONS,
    UNKNOWN,
    ConfigImport,
    import_config,
    read_legacy_config,
)

EXAMPLE = Path(__file__).parents[1] / "legacy_config.yaml"


def imported(environment: dict[str, str] | None = None, **sections: Any) -> ConfigImport:
    return import_config(sections, environment or {})


def notes(result: ConfigImport) -> dict[str, str]:
    return {note.name: note.text for note in result.unmapped}


def variables(result: ConfigImport) -> dict[str, str]:
    return {note.name: note.text for note in result.variables}


def llm(**use_cases: Any) -> dict[str, Any]:
    return {"llm_config": {"use_cases": use_cases}}


def refused(file: Path, content: str | bytes) -> str:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidSettings) as caught:
        import_config(read_legacy_config(file), {})
    return str(caught.value)


def test_the_result_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "secretary.yaml"
    file.write_text(import_config(read_legacy_config(EXAMPLE), {}).as_yaml())
    keys = {"OPENAI_API_KEY": "sk-1", "OPENROUTER_API_KEY": "sk-2"}
    settings = load(file, environment=keys)
    assert (settings.server.host, settings.server.port) == ("0.0.0.0", 5001)
    assert settings.generic_worker.max_concurrent_workers == 5
    assert settings.generic_worker.max_concurrent_per_type == {"session": 2}
    assert settings.documents.max_pages == 2000
    assert settings.limits.requests_per_minute == 60
    assert settings.logging.level == "warning"
    assert settings.templates.directory == Path("resources/templates")
    models = settings.llm
    assert (models.chat_provider, models.chat_model) == ("openrouter", "google/gemini-2.5-flash")
    assert models.chat_parameters == {"temperature": 0.7}
    assert (models.vision_provider, models.vision_model) == (
        "openrouter",
        "google/gemini-2.5-flash",
    )
    assert (models.transcription_provider, models.transcription_model) == ("openai", "whisper-1")
    assert models.providers["openai"].api_key == "sk-1"
    openrouter = models.providers["openrouter"]
    assert (openrouter.api_key, openrouter.timeout_sec, openrouter.max_concurrent) == (
        "sk-2",
        120,
        10,
    )


def test_every_setting_is_either_imported_or_reported_with_a_reason() -> None:
    result = import_config(read_legacy_config(EXAMPLE), {})
    reported = notes(result)
    assert {name for name, text in reported.items() if text == UNKNOWN} == {"somewhere.else"}
    for name in ("logging.file", "processors.pdf.images", "llm_providers.openai.api_key"):
        assert reported[name] != UNKNOWN
    assert "server.host" not in reported


@pytest.mark.parametrize("text", sorted({text for _, text in REASONS}))
def test_reasons_name_settings_that_exist(text: str) -> None:
    for word in text.replace(",", " ").replace(";", " ").split():
        group, dot, key = word.partition(".")
        if dot and key and group in Settings.model_fields:
            model = Settings.model_fields[group].annotation
            assert key in model.model_fields, word  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("use_case", "purpose", "provider"),
    [("embedding", "embedding", "voyageai"), ("text2image", "image", "openai"),
     ("ocr_pdf", "ocr", "mistral"), ("image2text", "vision", "openai")],
)  # fmt: skip
def test_models_are_imported(use_case: str, purpose: str, provider: str) -> None:
    result = imported(**llm(**{use_case: {"provider": provider, "model": "m"}}))
    models = result.settings["llm"]
    assert (models[f"{purpose}_provider"], models[f"{purpose}_model"]) == (provider, "m")


def test_models_that_cannot_be_used_are_reported() -> None:
    result = imported(
        llm_providers={"openai": {"enabled": False}},
        **llm(
            chat_completion={"provider": "openai", "model": "m"},
            transcription={"provider": "elsewhere", "model": "m"},
            image2text={"provider": "ollama"},
            ocr_pdf={"provider": "openrouter", "model": "m"},
            dreaming={"provider": "openai", "model": "m"},
        ),
    )
    prefix = "llm_config.use_cases."
    reported = {name.removeprefix(prefix): text for name, text in notes(result).items()}
    assert reported["chat_completion"] == "the provider openai is disabled"
    assert reported["transcription"] == "the address of the provider elsewhere is unknown"
    assert reported["image2text"] == "it needs both a provider and a model"
    assert reported["ocr_pdf"] == "extraction methods with `llm` use llm.vision_model"
    assert reported["dreaming.provider"] == "this use case is unknown"
    assert "llm" not in result.settings


def test_a_local_endpoint_gets_the_path_of_the_api() -> None:
    providers = {
        "ollama": {"base_url": "http://127.0.0.1:11434/"},
        "own": {"base_url": "http://h/x/v1"},
    }
    models = llm(
        chat_completion={"provider": "Ollama", "model": "m"},
        transcription={"provider": "own", "model": "m"},
    )
    result = imported(llm_providers=providers, **models)
    urls = {name: one["base_url"] for name, one in result.settings["llm"]["providers"].items()}
    assert urls == {"ollama": "http://127.0.0.1:11434/v1", "own": "http://h/x/v1"}
    assert set(variables(result)) == {"MONGODB_URI", "SECRETARY_SERVICE_API_KEY"}


def test_variables_are_replaced_or_reported() -> None:
    server = {"host": "${HOST}", "port": "${PORT}"}
    result = imported({"PORT": "5001"}, server=server)
    assert result.settings["server"] == {"port": 5001}
    assert variables(result)["HOST"] == "server.host uses it, but it is not set"
    environment = {"MAX_UPLOAD_SIZE_MB": "250", "VIMEO_PASSWORD": "x", "HOST": "10.0.0.1"}
    result = imported(environment, server={"host": "${HOST}"})
    assert result.settings["server"] == {"host": "10.0.0.1"}
    assert result.settings["limits"] == {"max_upload_mb": 250}
    assert notes(result) == {"VIMEO_PASSWORD": "downloads use no cookies or accounts"}


@pytest.mark.parametrize(
    ("uri", "copied"),
    [
        ("mongodb://localhost:27017/db?replicaSet=rs0", True),
        ("mongodb://ann:s3cret@host/db", False),
        ("mongodb://host/db?authMechanismProperties=AWS_SESSION_TOKEN:s3cret", False),
        ("${MONGODB_URI}", False),
        ("mongodb://${USER}:${PASSWORD}@host", False),
    ],
)
def test_an_address_of_mongodb_is_copied_only_without_secrets(uri: str, copied: bool) -> None:
    result = imported({"MONGODB_URI": "mongodb://ann:s3cret@host"}, mongodb={"uri": uri})
    if copied:
        assert result.settings == {"storage": {"mongodb_uri": uri}}
    else:
        assert "s3cret" not in result.as_yaml() + str(result.unmapped) + str(result.variables)
        assert "MONGODB_URI" in variables(result)
        assert result.settings == {}


def test_no_secret_reaches_the_result() -> None:
    environment = {"OPENAI_API_KEY": "sk-secret", "SECRETARY_SERVICE_API_KEY": "sk-secret"}
    result = imported(
        environment,
        server={"host": "${OPENAI_API_KEY}"},
        llm_providers={"openai": {"api_key": "sk-secret"}},
        **llm(chat_completion={"provider": "openai", "model": "m"}),
    )
    assert "sk-secret" not in result.as_yaml() + str(result)
    assert variables(result)["OPENAI_API_KEY"]


def test_a_limit_that_was_off_stays_off() -> None:
    limits = {"enabled": False, "requests_per_minute": 60}
    assert imported(rate_limiting=limits).settings == {}


def test_all_wrong_values_are_named_without_quoting_them(tmp_path: Path) -> None:
    text = refused(
        tmp_path / "old.yaml",
        """
server: {host: [s3cret], port: s3cret}
logging: {level: s3cret}
generic_worker: s3cret
rate_limiting: {requests_per_minute: 1.5}
mongodb: {uri: [s3cret]}
""",
    )
    assert text.splitlines() == [
        "The file has invalid settings:",
        "  generic_worker: must be a group of settings",
        "  server.host: must be text",
        "  server.port: must be an integer",
        "  rate_limiting.requests_per_minute: must be an integer",
        "  logging.level: must be one of debug, info, warning, warn, error, critical, fatal",
        "  mongodb.uri: must be text",
    ]


def test_values_out_of_range_are_named_without_quoting_them(tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    assert "server.port: Input should be less than" in refused(file, "server: {port: 700000}")
    url = "http://ann:s3cret@host/v1"
    use_cases = {"chat_completion": {"provider": "own", "model": "m"}}
    document = {
        "llm_providers": {"own": {"base_url": url}},
        "llm_config": {"use_cases": use_cases},
    }
    text = refused(file, yaml.safe_dump(document))
    assert "llm.providers.own.base_url" in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("null", "is empty"),
        ("- a\n- b", "has no settings of the previous service"),
        ("text s3cret", "has no settings of the previous service"),
        ("storage: {data_dir: x}", "has no settings of the previous service"),
        ("server:\n  key: [s3cret\n", "is not valid YAML in line"),
        ("server: {host: !!python/object/apply:os.system [s3cret]}", "is not valid YAML in line 1"),
        ("server: {host: 2024-99-99}", "is not valid YAML"),
        ("[" * 5000, "is not valid YAML"),
        (b"server: \xff", "is not valid YAML"),
        (b"server: \x00", "is not valid YAML"),
        ("a" * (MAX_BYTES + 1), "is larger than"),
        ("server: &a {b: *a}", "nested deeper"),
        ("server: &a {b: {c: *a, d: *a}}", "nested deeper"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    text = refused(tmp_path / "old.yaml", content)
    assert message in text
    assert "s3cret" not in text


def test_a_file_that_grows_when_it_is_read_is_refused(tmp_path: Path) -> None:
    lines = ["x0: &x0 {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1}"]
    for level in range(1, 12):
        keys = ", ".join(f"{key}: *x{level - 1}" for key in "abcdefghi")
        lines.append(f"x{level}: &x{level} {{{keys}}}")
    text = refused(tmp_path / "old.yaml", "\n".join([*lines, "server: *x11"]))
    assert "more than 2000 settings" in text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="cannot be read: No such file"):
        read_legacy_config(tmp_path / "none.yaml")
    with pytest.raises(InvalidSettings, match="cannot be read: Is a directory"):
        read_legacy_config(tmp_path)


def test_templates_are_found_where_they_were_read_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    processors = {"transformer": {"templates_dir": "elsewhere"}}
    result = imported(processors=processors)
    assert result.settings["templates"] == {"directory": "elsewhere"}
    assert "there is no such directory" in notes(result)["processors.transformer.templates_dir"]
    (tmp_path / "templates").mkdir()
    assert imported(processors=processors).settings["templates"] == {"directory": "templates"}


class TestProviderKeys:
    FILE = "llm: {providers: {openai: {}, mistral: {api_key: own}}, chat_provider: openai}"

    def test_the_key_of_a_known_provider_comes_from_its_variable(self, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        file.write_text(self.FILE)
        environment = {
            "OPENAI_API_KEY": "sk-1",
            "MISTRAL_API_KEY": "sk-2",
            "VOYAGE_API_KEY": "sk-3",
        }
        providers = load(file, environment=environment).llm.providers
        assert {name: one.api_key for name, one in providers.items()} == {
            "openai": "sk-1",
            "mistral": "own",
        }

    def test_without_such_a_provider_the_variable_is_ignored(self) -> None:
        loaded = load(environment={"OPENAI_API_KEY": "sk-1"})
        assert loaded.llm == LlmSettings()
