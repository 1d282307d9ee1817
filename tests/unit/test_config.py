from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from secretary import config
from secretary.config import ApiKeySettings, Settings, load
from secretary.core.errors import InvalidSettings
from secretary.llm import LlmOptions, Model, Price, Provider


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path for a config file, in a directory without one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "settings.yaml"


def settings(environment: dict[str, str] | None = None, **options: Any) -> Settings:
    return load(environment=environment or {}, **options)


class TestWhereSettingsComeFrom:
    def test_without_anything_the_defaults_hold(self, file: Path) -> None:
        assert settings() == Settings()
        assert settings().server.host == "127.0.0.1"

    def test_the_file_sets_what_it_names(self, file: Path) -> None:
        file.write_text("server: {port: 8000}\n")
        loaded = settings(file=file)
        assert loaded.server.port == 8000
        assert loaded.server.host == "127.0.0.1"

    def test_config_yaml_is_found_without_being_named(self, file: Path) -> None:
        Path("config").mkdir()
        config.DEFAULT_FILE.write_text("server: {port: 8000}\n")
        assert settings().server.port == 8000

    def test_an_empty_file_says_nothing(self, file: Path) -> None:
        file.write_text("# all defaults\n")
        assert settings(file=file) == Settings()

    def test_the_environment_wins_over_the_file(self, file: Path) -> None:
        file.write_text("server: {port: 8000, host: 127.0.0.2}\n")
        loaded = settings({"SECRETARY_SERVER__PORT": "9000"}, file=file)
        assert (loaded.server.port, loaded.server.host) == (9000, "127.0.0.2")

    def test_the_command_line_wins_over_the_environment(self, file: Path) -> None:
        loaded = settings({"SECRETARY_SERVER__PORT": "9000"}, overrides={"server": {"port": 1}})
        assert loaded.server.port == 1

    def test_mappings_in_the_environment_are_yaml(self, file: Path) -> None:
        name = "SECRETARY_GENERIC_WORKER__MAX_CONCURRENT_PER_TYPE"
        assert settings({name: "{pdf: 2}"}).generic_worker.max_concurrent_per_type == {"pdf": 2}

    def test_variables_of_other_programs_are_left_alone(self, file: Path) -> None:
        assert settings({"PATH": "/bin", "SECRET": "x"}) == Settings()


class TestAllowedHosts:
    def allowed(self, text: str) -> tuple[str, ...]:
        return settings({"SECRETARY_NETWORK__ALLOW_HOSTS": text}).network.allow_hosts

    @pytest.mark.parametrize(
        ("text", "hosts"),
        [
            ("", ()),
            ("localhost", ("localhost",)),
            ("localhost:8080, 10.0.0.0/8,", ("localhost:8080", "10.0.0.0/8")),
            ("*.example.org", ("*.example.org",)),
            ("127.0.0.1:80", ("127.0.0.1:80",)),
            ("::1", ("::1",)),
            ("[::1]:8080", ("[::1]:8080",)),
            ("[a.example, '[::1]:8080']", ("a.example", "[::1]:8080")),
        ],
    )
    def test_the_environment_may_name_them_as_text_or_list(
        self, file: Path, text: str, hosts: tuple[str, ...]
    ) -> None:
        assert self.allowed(text) == hosts

    def test_the_file_names_them_as_a_list(self, file: Path) -> None:
        file.write_text("network: {allow_hosts: [wiki.example.org, 10.0.0.0/8]}")
        assert settings(file=file).network.allow_hosts == ("wiki.example.org", "10.0.0.0/8")

    @pytest.mark.parametrize("text", ["a.example, http://b", "a.example, 10.0.0.1/8", "a, *"])
    def test_a_wrong_one_is_named(self, file: Path, text: str) -> None:
        wrong = text.partition(", ")[2]
        with pytest.raises(InvalidSettings) as caught:
            self.allowed(text)
        assert f"network.allow_hosts.1: Value error, '{wrong}' is not a host" in str(caught.value)

    def test_a_number_is_no_host(self, file: Path) -> None:
        with pytest.raises(InvalidSettings, match=r"network\.allow_hosts"):
            self.allowed("80")


class TestPlainVariables:
    def test_lists_are_split_at_commas(self, file: Path) -> None:
        loaded = settings({"SECRETARY_HANDLERS": "a.b:register, c:register"})
        assert loaded.handlers == ("a.b:register", "c:register")

    def test_a_single_key_joins_the_others(self, file: Path) -> None:
        environment = {"SECRETARY_API_KEYS": "one,two:ann", "SECRETARY_SERVICE_API_KEY": "three"}
        assert sorted(map(str, settings(environment).access.api_keys)) == [
            "one",
            "three",
            "two:ann",
        ]

    def test_the_key_of_prometheus_has_no_other_scope(self, file: Path) -> None:
        (key,) = settings({"SECRETARY_METRICS_API_KEY": "one"}).access.api_keys
        assert key == ApiKeySettings(key="one", scopes=("metrics",))

    def test_keys_in_detail_join_the_others(self, file: Path) -> None:
        detailed = "[{key: abc, scopes: [metrics], expires_at: 2027-01-31}, plain]"
        environment = {"SECRETARY_API_KEYS": "one", "SECRETARY_ACCESS__API_KEYS": detailed}
        key, *others = settings(environment).access.api_keys
        expires_at = datetime(2027, 1, 31, tzinfo=UTC)
        assert key == ApiKeySettings(key="abc", scopes=("metrics",), expires_at=expires_at)
        assert others == ["plain", "one"]

    def test_mongodb_replaces_the_embedded_store(self, file: Path) -> None:
        loaded = settings({"MONGODB_URI": "mongodb://db.example/jobs"})
        assert loaded.store_url == "mongodb://db.example/jobs"
        assert loaded.database_file is None

    def test_else_the_store_is_a_file_in_the_data_directory(self, file: Path) -> None:
        loaded = settings(overrides={"storage": {"data_dir": "here"}})
        assert loaded.database_file == Path("here").resolve() / "secretary.db"
        assert loaded.store_url == f"sqlite://{loaded.database_file}"


class TestLanguageModels:
    def vision(self, **environment: str) -> Model | None:
        named = {f"SECRETARY_LLM__{name}": value for name, value in environment.items()}
        return LlmOptions.from_settings(settings(named).llm).models.get("vision")

    def test_an_address_and_a_model_are_enough(self, file: Path) -> None:
        model = self.vision(BASE_URL="http://127.0.0.1:11434/v1", MODEL="qwen2.5vl")
        assert model is not None
        assert (model.name, model.provider.base_url) == ("qwen2.5vl", "http://127.0.0.1:11434/v1")
        assert (model.provider.setting, model.provider.api_key) == ("llm", None)

    def test_so_are_a_key_of_openai_and_a_model(self, file: Path) -> None:
        model = self.vision(API_KEY="sk-1", MODEL="gpt")
        assert model is not None
        assert model.provider.base_url == "https://api.openai.com/v1"
        assert model.provider.api_key == "sk-1"

    @pytest.mark.parametrize(
        "environment", [{}, {"MODEL": "gpt"}, {"API_KEY": "sk-1"}, {"API_KEY": "", "MODEL": "gpt"}]
    )
    def test_half_of_it_is_no_model(self, file: Path, environment: dict[str, str]) -> None:
        assert self.vision(**environment) is None

    def test_a_key_that_looks_like_a_number_stays_as_it_is(self, file: Path) -> None:
        model = self.vision(API_KEY="0123", MODEL="gpt")
        assert model is not None
        assert model.provider.api_key == "0123"

    def test_a_purpose_may_have_an_endpoint_and_a_model_of_its_own(self, file: Path) -> None:
        file.write_text(
            "llm:\n  base_url: http://127.0.0.1:1/v1\n  model: writer\n"
            "  providers: {eyes: {base_url: 'http://127.0.0.1:2/v1', timeout_sec: 9}}\n"
            "  vision_provider: eyes\n  vision_model: seer\n  vision_parameters: {temperature: 0}\n"
        )
        key = {"SECRETARY_LLM__PROVIDERS": "{eyes: {api_key: sk-2}}"}
        model = LlmOptions.from_settings(settings(key, file=file).llm).models["vision"]
        assert (model.name, model.parameters) == ("seer", {"temperature": 0})
        assert model.provider == Provider(
            setting="llm.providers.eyes",
            base_url="http://127.0.0.1:2/v1",
            api_key="sk-2",
            timeout_sec=9,
        )

    def test_all_of_a_named_endpoint_can_come_from_the_environment(self, file: Path) -> None:
        named = {
            "SECRETARY_LLM__PROVIDERS": "{whisper: {max_concurrent: 2}}",
            "SECRETARY_LLM__PROVIDERS__WHISPER__BASE_URL": "http://127.0.0.1:3/v1",
            "SECRETARY_LLM__PROVIDERS__WHISPER__API_KEY": "007",
            "SECRETARY_LLM__TRANSCRIPTION_PROVIDER": "whisper",
            "SECRETARY_LLM__TRANSCRIPTION_MODEL": "1e3",
        }
        (model,) = LlmOptions.from_settings(settings(named).llm).models.values()
        assert model.name == "1e3"
        assert model.provider == Provider(
            setting="llm.providers.whisper",
            base_url="http://127.0.0.1:3/v1",
            api_key="007",
            max_concurrent=2,
        )

    def test_each_purpose_has_its_own_endpoint_and_model(self, file: Path) -> None:
        file.write_text(
            "llm:\n  api_key: sk-1\n  model: writer\n"
            "  providers: {eyes: {base_url: 'http://127.0.0.1:2/v1'}}\n"
            "  vision_provider: eyes\n  vision_model: seer\n"
            "  transcription_model: hearer\n  transcription_parameters: {temperature: 0}\n"
            "  prices: {hearer: {minute: 0.5}}\n"
        )
        models = LlmOptions.from_settings(settings(file=file).llm).models
        assert {
            purpose: (model.name, model.provider.setting) for purpose, model in models.items()
        } == {
            "chat": ("writer", "llm"),
            "vision": ("seer", "llm.providers.eyes"),
            "transcription": ("hearer", "llm"),
        }
        assert models["transcription"].parameters == {"temperature": 0}
        assert models["transcription"].price == Price(minute=0.5)
        assert models["chat"].price is None

    def test_a_model_that_writes_is_not_asked_to_listen(self, file: Path) -> None:
        named = {"SECRETARY_LLM__API_KEY": "sk-1", "SECRETARY_LLM__MODEL": "writer"}
        assert set(LlmOptions.from_settings(settings(named).llm).models) == {"chat", "vision"}

    def test_a_key_is_not_shown_with_the_settings(self, file: Path) -> None:
        assert "sk-1" not in repr(settings({"SECRETARY_LLM__API_KEY": "sk-1"}))


class TestOldNames:
    def test_session_worker_is_read_as_generic_worker(self, file: Path) -> None:
        file.write_text("session_worker: {max_concurrent: 5}\n")
        assert settings(file=file).generic_worker.max_concurrent_workers == 5

    def test_the_new_name_wins(self, file: Path) -> None:
        file.write_text(
            "session_worker: {max_concurrent_workers: 5, poll_interval_sec: 2}\n"
            "generic_worker: {max_concurrent_workers: 6}\n"
        )
        worker = settings(file=file).generic_worker
        assert (worker.max_concurrent_workers, worker.poll_interval_sec) == (6, 2)


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("server: {port: many}", "server.port: .*'many'"),
            ("server: {port: 99999}", "server.port: .*65535"),
            ("server: {prot: 1}", "server.prot: there is no such setting"),
            ("sevrer: {port: 1}", "sevrer: there is no such setting"),
            ("server: 5", "server: .*"),
            ("[1, 2]", "must hold groups"),
            ("a: [", "is not YAML"),
            ("generic_worker: {max_concurrent_workers: 0}", "max_concurrent"),
            ("logging: {level: loud}", "logging.level"),
            ("access: {api_keys: ['']}", "access.api_keys.0"),
            ("access: {api_keys: [':ann']}", "access.api_keys.0"),
            ("access: {api_keys: [{key: 'a:b'}]}", "access.api_keys.0"),
            ("access: {api_keys: [{key: a, scopes: []}]}", "access.api_keys.0.key.scopes"),
            ("access: {api_keys: [{key: a, scopes: [all]}]}", "scopes.0: .*'metrics'"),
            ("access: {api_keys: [{key: a, scope: read}]}", "has only key, user, scopes, expires_"),
            ("llm: {base_url: 'llm.example'}", "llm.base_url: .*http://host:port/v1"),
            ("llm: {vision_provider: one}", "llm.vision_provider: .*none of this name"),
            ("llm: {transcription_provider: one}", "transcription_provider: .*none of this name"),
            ("llm: {prices: {gpt: {input: -1}}}", "llm.prices.gpt.input: "),
        ],
    )
    def test_a_wrong_file_is_refused_with_a_sentence_that_names_it(
        self, file: Path, text: str, says: str
    ) -> None:
        file.write_text(text)
        with pytest.raises(InvalidSettings, match=says):
            settings(file=file)

    def test_a_missing_file_is_refused_when_it_was_named(self, file: Path) -> None:
        with pytest.raises(InvalidSettings, match="cannot be read: No such file"):
            settings(file=file)

    @pytest.mark.parametrize("name", ["SECRETARY_PORT", "SECRETARY_SERVER__PROT"])
    def test_an_unknown_variable_is_refused(self, file: Path, name: str) -> None:
        with pytest.raises(InvalidSettings, match=r"SECRETARY_PORT|server\.prot"):
            settings({name: "1"})

    @pytest.mark.parametrize(
        "text",
        [
            "access: {api_keys: {SECRET: 1}}",
            "access: {api_keys: [[SECRET]]}",
            "access: {api_keys: [{SECRET: ann}]}",
            "access: {api_keys: [{key: 'SECRET with a space'}]}",
            "access: {api_keys: [{key: [SECRET]}]}",
            "access: SECRET",
            "storage: {mongodb_uri: [SECRET]}",
            "storage: mongodb://ann:SECRET@db.example",
            "llm: SECRET",
            "llm: {api_key: [SECRET]}",
            "llm: {api_key: 'SECRET with a space'}",
            "llm: {base_url: 'https://ann:SECRET@llm.example/v1'}",
            "llm: {base_url: 'https://llm.example/v1?key=SECRET'}",
            "llm: {providers: SECRET}",
            "llm: {providers: {one: SECRET}}",
            "llm: {providers: {one: {api_key: {SECRET: 1}}}}",
            "llm: {providers: {one: {timeout_sec: SECRET}}}",
        ],
    )
    def test_a_wrong_secret_is_not_repeated(self, file: Path, text: str) -> None:
        file.write_text(text)
        with pytest.raises(InvalidSettings) as caught:
            settings(file=file)
        assert "SECRET" not in str(caught.value)

    def test_all_mistakes_are_reported_at_once(self, file: Path) -> None:
        file.write_text("server: {port: x}\nlogging: {format: x}\n")
        with pytest.raises(InvalidSettings, match=r"(?s)server\.port.*logging\.format"):
            settings(file=file)

    def test_settings_cannot_be_changed(self, file: Path) -> None:
        with pytest.raises(ValueError, match="frozen"):
            Settings().server = config.ServerSettings()
