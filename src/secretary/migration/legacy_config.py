"""Translates the config file of the previous service into settings of this one."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from ..config import PROVIDER_KEYS, Settings
from ..core.errors import InvalidSettings

T = TypeVar("T", str, int, float, bool)

MAX_BYTES = 1024 * 1024
MAX_SETTINGS = 2000
MAX_DEPTH = 20

SECTIONS = frozenset(
    {
        "cache", "caching", "events", "generic_worker", "llm_config", "llm_providers", "logging",
        "mongodb", "processors", "rate_limiting", "server", "session_worker", "sessions",
    }
)  # fmt: skip
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|URI", re.IGNORECASE)
#: In an address of MongoDB: a user, or an option with a secret.
CREDENTIALS = re.compile(r"@|passw|token|secret|\bkey", re.IGNORECASE)
#: Mappings that are reported as one setting.
REPORTED_WHOLE = ("processors.*.cache", "processors.pdf.images", "*.available_models", "*.ydl_opts")

#: Settings that only have another name here.
RENAMED: Mapping[str, tuple[str, type[Any]]] = {
    "server.host": ("server.host", str),
    "server.api_port": ("server.port", int),
    "server.port": ("server.port", int),
    "generic_worker.active": ("generic_worker.active", bool),
    "generic_worker.max_concurrent": ("generic_worker.max_concurrent_workers", int),
    "generic_worker.poll_interval_sec": ("generic_worker.poll_interval_sec", float),
    "processors.pdf.max_pages": ("documents.max_pages", int),
}
LOG_LEVELS = {
    "debug": "debug", "info": "info", "warning": "warning", "warn": "warning", "error": "error",
    "critical": "error", "fatal": "error",
}  # fmt: skip

_CACHE = "results are cached below storage.data_dir, up to cache.max_mb"
_DATA = "all files are below storage.data_dir"
_JOBS = "generic_worker.max_concurrent_workers limits all jobs"
_VISION = "llm.vision_parameters are sent with each request"
#: Why settings have no counterpart; the first pattern counts.
REASONS: tuple[tuple[str, str], ...] = (
    ("cache.*", _CACHE),
    ("caching.*", _CACHE),
    ("processors.*.cache_dir", _CACHE),
    ("processors.*.cache", _CACHE),
    ("processors.*.base_dir", _DATA),
    ("sessions.*", _DATA),
    ("events.*", _DATA),
    ("processors.*.max_concurrent_tasks", _JOBS),
    ("processors.*.max_file_size", "limits.max_upload_mb limits all uploads"),
    ("processors.*.max_resolution", "documents.max_megapixels limits all images"),
    ("processors.audio.*", "recordings are split at pauses"),
    ("processors.event.*", "`secretary import` reads the schedule of a conference"),
    ("processors.imageanalyzer.*", _VISION),
    ("processors.metadata.*", "each result has its metadata"),
    ("processors.openai.*", _VISION),
    ("processors.pdf.images", "page images have a fixed size"),
    ("processors.rag.embedding_*", "llm.embedding_model and its parameters are set for all uses"),
    ("processors.rag.*", "texts are split automatically, and vectors are not stored"),
    ("processors.text2image.*", "each request names what it needs"),
    ("processors.transformer.max_tokens", "llm.chat_parameters can limit answers"),
    ("processors.transformer.*", "no chat model is configured"),
    (
        "processors.youtube.*",
        "media.max_duration_hours and network.download_max_mb limit all media",
    ),
    ("session_worker.*", "one pool of workers runs all job types"),
    ("logging.*", "the log goes to standard error; let the service manager store it"),
    ("mongodb.*", "add it to the address in MONGODB_URI, such as `maxPoolSize=20`"),
    ("rate_limiting.*", "limits.requests_per_minute is 0 for no limit"),
    ("server.debug", "set logging.level to debug"),
    ("server.api_base_url", "URLs in results are relative"),
    ("llm_providers.*.available_models", "any model of an endpoint can be named"),
    ("llm_providers.*.api_key", "keys are read from the environment, as before"),
    ("llm_providers.*", "no use case names this provider"),
    ("llm_config.use_cases.*", "this use case is unknown"),
)
UNKNOWN = "unknown"

#: What the models of the previous service are used for here.
PURPOSES = {
    "chat_completion": "chat", "image_analysis": "vision", "image2text": "vision",
    "transcription": "transcription", "embedding": "embedding", "text2image": "image",
    "ocr_pdf": "ocr",
}  # fmt: skip
PROVIDER_URLS = {
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "mistral": "https://api.mistral.ai/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "voyageai": "https://api.voyageai.com/v1",
}
#: How each provider calls the length of a vector.
DIMENSIONS = {"voyageai": "output_dimension"}

_COOKIES = "downloads use no cookies or accounts"
#: Variables of the environment that have no effect here.
VARIABLES = {
    "ALLOW_LOCALHOST_NO_AUTH": "without API keys, only this machine has access",
    "ALLOW_SWAGGER_WHITELIST": "the API description is open",
    "AUTH_LOG_DECISIONS": "refused requests are logged",
    "MISTRAL_MODEL": "set llm.ocr_model",
    "PYTHONHTTPSVERIFY": "certificates are always verified",
    "REQUESTS_CA_BUNDLE": "set SSL_CERT_FILE",
    "VIMEO_ACCESS_TOKEN": _COOKIES,
    "VIMEO_PASSWORD": _COOKIES,
    "VIMEO_USERNAME": _COOKIES,
    "YTDLP_CA_BUNDLE": "set SSL_CERT_FILE",
    "YTDLP_COOKIES_FILE": _COOKIES,
    "YTDLP_COOKIES_FROM_BROWSER": _COOKIES,
    "YTDLP_NETRC": _COOKIES,
    "YTDLP_YOUTUBE_COOKIES_FILE": _COOKIES,
}


@dataclass(frozen=True, slots=True)
class Note:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ConfigImport:
    """The settings, without secrets, and what else its operator has to know."""

    settings: Mapping[str, Any]
    #: Settings without a counterpart, and why.
    unmapped: tuple[Note, ...]
    #: Environment variables, and what they are for.
    variables: tuple[Note, ...]

    def as_yaml(self) -> str:
        return yaml.safe_dump(dict(self.settings), sort_keys=False, allow_unicode=True)


def read_legacy_config(file: Path) -> dict[str, Any]:
    """Raises InvalidSettings, without quoting the file: it may contain secrets."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidSettings(f"{file} cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise InvalidSettings(f"{file} is larger than {MAX_BYTES:,} bytes")
    try:
        document = yaml.safe_load(content.decode("utf-8-sig"))
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidSettings(f"{file} is not valid YAML{line}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InvalidSettings(f"{file} is not valid YAML") from None
    if document is None:
        raise InvalidSettings(f"{file} is empty")
    if not isinstance(document, dict) or not SECTIONS & document.keys():
        known = ", ".join(sorted(SECTIONS))
        raise InvalidSettings(f"{file} has no settings of the previous service, such as {known}")
    return document


def import_config(document: Mapping[str, Any], environment: Mapping[str, str]) -> ConfigImport:
    """Translate the settings. Raises InvalidSettings with all values that are wrong."""
    return _Importer(document, environment).run()


class _Importer:
    def __init__(self, document: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._problems: list[str] = []
        self._unmapped: list[Note] = []
        self._variables: list[Note] = []
        self._settings: dict[str, Any] = {}
        #: What has not been translated yet, by dotted name.
        self._old: dict[str, Any] = {}
        for name, value in self._flatten(document):
            if len(self._old) >= MAX_SETTINGS:
                raise InvalidSettings(f"The file has more than {MAX_SETTINGS} settings")
            self._old[name] = value

    def _flatten(
        self, values: Mapping[Any, Any], prefix: str = "", depth: int = 0
    ) -> Iterator[tuple[str, Any]]:
        if depth > MAX_DEPTH:  # an alias may contain itself
            raise InvalidSettings(f"The file is nested deeper than {MAX_DEPTH} levels")
        for key, value in values.items():
            name = f"{prefix}{key}"
            is_whole = any(fnmatchcase(name, pattern) for pattern in REPORTED_WHOLE)
            if isinstance(value, Mapping) and value and not is_whole:
                yield from self._flatten(value, f"{name}.", depth + 1)
            elif not prefix and key in SECTIONS and value not in (None, {}):
                self._problems.append(f"{name}: must be a group of settings")
            elif value is not None:
                yield name, value

    def run(self) -> ConfigImport:
        for old, (new, kind) in RENAMED.items():
            if (value := self._take(old, kind)) is not None:
                self._set(new, value)
        self._import_limits()
        self._import_mongodb()
        self._import_templates()
        self._import_models()
        self._note_the_rest()
        if not self._problems:
            self._validate()
        if self._problems:
            raise InvalidSettings(
                "The file has invalid settings:\n  " + "\n  ".join(self._problems)
            )
        unmapped = tuple(sorted(self._unmapped, key=lambda note: note.name))
        return ConfigImport(self._settings, unmapped, tuple(self._variables))

    # Values

    def _take(self, name: str, kind: type[T]) -> T | None:
        """A setting of the file; None if it is missing, or its variable is not set."""
        value = self._old.pop(name, None)
        if isinstance(value, str) and (value := self._substitute(name, value)) is None:
            return None
        if isinstance(value, str) and kind is not str:
            value = yaml.safe_load(value) if re.fullmatch(r"[\w.+-]{1,20}", value) else value
        if kind is float and type(value) is int:
            value = float(value)
        if value is None or type(value) is kind:
            return value
        words = {str: "text", int: "an integer", float: "a number", bool: "true or false"}
        self._problems.append(f"{name}: must be {words[kind]}")
        return None

    def _substitute(self, name: str, text: str) -> str | None:
        """Replace `${NAME}`, unless it is a secret: the result is written to a file."""
        for variable in VARIABLE.findall(text):
            is_secret = SECRET_NAME.search(variable) is not None
            if is_secret or variable not in self._environment:
                reason = "it may be a secret" if is_secret else "it is not set"
                self._variables.append(Note(variable, f"{name} uses it, but {reason}"))
                return None
        return VARIABLE.sub(lambda match: self._environment[match[1]], text)

    def _set(self, name: str, value: Any) -> None:
        *groups, key = name.split(".")
        target = self._settings
        for group in groups:
            target = target.setdefault(group, {})
        target[key] = value

    def _get(self, name: str) -> Any:
        group, _, key = name.partition(".")
        return self._settings.get(group, {}).get(key)

    # Groups

    def _import_limits(self) -> None:
        enabled = self._take("rate_limiting.enabled", bool)
        per_minute = self._take("rate_limiting.requests_per_minute", int)
        if per_minute is not None and enabled is not False:
            self._set("limits.requests_per_minute", per_minute)
        if sessions := self._take("session_worker.max_concurrent", int):
            self._set("generic_worker.max_concurrent_per_type", {"session": sessions})
        if (level := self._take("logging.level", str)) is not None:
            if level.lower() in LOG_LEVELS:
                self._set("logging.level", LOG_LEVELS[level.lower()])
            else:
                self._problems.append(f"logging.level: must be one of {', '.join(LOG_LEVELS)}")
        upload = self._environment.get("MAX_UPLOAD_SIZE_MB", "")
        if upload.isascii() and upload.isdigit():
            self._set("limits.max_upload_mb", int(upload))

    def _import_mongodb(self) -> None:
        uri = self._old.pop("mongodb.uri", None)
        if isinstance(uri, str) and not VARIABLE.search(uri) and not CREDENTIALS.search(uri):
            self._set("storage.mongodb_uri", uri)
        elif isinstance(uri, str | None):
            text = "the address of MongoDB; without it, jobs are stored in storage.data_dir"
            if uri and not VARIABLE.search(uri):
                text += ". mongodb.uri may contain a password, so it was not copied"
            self._variables.append(Note("MONGODB_URI", text))
        else:
            self._problems.append("mongodb.uri: must be text")
        self._variables.append(Note("SECRETARY_SERVICE_API_KEY", "the API key that clients send"))

    def _import_templates(self) -> None:
        directory = self._take("processors.transformer.templates_dir", str)
        if directory and not Path(directory).is_dir() and Path("templates").is_dir():
            directory = "templates"  # where they were read from, whatever the setting
        if directory:
            self._set("templates.directory", directory)
            if not Path(directory).is_dir():
                self._note("processors.transformer.templates_dir", "there is no such directory yet")

    # Language models

    def _import_models(self) -> None:
        use_cases: dict[str, tuple[str, str]] = {}
        for name in PURPOSES:
            prefix = f"llm_config.use_cases.{name}"
            provider = self._take(f"{prefix}.provider", str)
            model = self._take(f"{prefix}.model", str)
            if provider and model:
                use_cases[name] = (provider.lower(), model)
            elif provider or model:
                self._note(prefix, "it needs both a provider and a model")
        for use_case, setting in (
            ("chat_completion", "processors.transformer.model"),
            ("image2text", "processors.openai.vision_model"),
        ):
            if (model := self._take(setting, str)) and use_case not in use_cases:
                use_cases[use_case] = ("openai", model)
        dimensions = self._take("llm_config.use_cases.embedding.dimensions", int)
        for use_case, (provider, model) in use_cases.items():
            self._import_model(use_case, provider, model)
        if dimensions and (provider := self._get("llm.embedding_provider")):
            name = DIMENSIONS.get(provider, "dimensions")
            self._set("llm.embedding_parameters", {name: dimensions})
        if chat := self._get("llm.chat_provider"):
            self._import_chat_options(chat)

    def _import_model(self, use_case: str, provider: str, model: str) -> None:
        name, purpose = f"llm_config.use_cases.{use_case}", PURPOSES[use_case]
        if purpose == "ocr" and provider != "mistral":
            return self._note(name, "extraction methods with `llm` use llm.vision_model")
        previous = (self._get(f"llm.{purpose}_provider"), self._get(f"llm.{purpose}_model"))
        if previous not in ((None, None), (provider, model)):
            return self._note(name, f"llm.{purpose}_model is that of another use case")
        if self._take(f"llm_providers.{provider}.enabled", bool) is False:
            self._old[f"llm_providers.{provider}.enabled"] = False  # other use cases may name it
            return self._note(name, f"the provider {provider} is disabled")
        if not self._import_provider(provider):
            return self._note(name, f"the address of the provider {provider} is unknown")
        self._set(f"llm.{purpose}_provider", provider)
        self._set(f"llm.{purpose}_model", model)

    def _import_provider(self, provider: str) -> bool:
        if provider in (self._get("llm.providers") or {}):
            return True
        base_url = self._take(f"llm_providers.{provider}.base_url", str)
        base_url = base_url or PROVIDER_URLS.get(provider)
        if base_url is None:
            return False
        if re.fullmatch(r"https?://[^/]+/?", base_url):  # Ollama's own API has no path
            base_url = f"{base_url.rstrip('/')}/v1"
        self._set(f"llm.providers.{provider}", {"base_url": base_url})
        for variable, name in PROVIDER_KEYS.items():
            if name == provider:
                self._variables.append(Note(variable, f"the key of llm.providers.{provider}"))
        return True

    def _import_chat_options(self, provider: str) -> None:
        prefix = "processors.transformer"
        temperature = self._take(f"{prefix}.temperature", float)
        if temperature is not None:
            self._set("llm.chat_parameters", {"temperature": temperature})
        if (timeout := self._take(f"{prefix}.timeout_seconds", float)) is not None:
            self._set(f"llm.providers.{provider}.timeout_sec", timeout)
        if (concurrent := self._take(f"{prefix}.max_concurrent_requests", int)) is not None:
            self._set(f"llm.providers.{provider}.max_concurrent", concurrent)

    # Report

    def _note(self, name: str, text: str) -> None:
        self._unmapped.append(Note(name, text))

    def _note_the_rest(self) -> None:
        for provider in self._get("llm.providers") or {}:
            self._old.pop(f"llm_providers.{provider}.enabled", None)
        for name in self._old:
            matching = (text for pattern, text in REASONS if fnmatchcase(name, pattern))
            self._note(name, next(matching, UNKNOWN))
        for variable, text in VARIABLES.items():
            if variable in self._environment:
                self._note(variable, text)

    def _validate(self) -> None:
        try:
            Settings.model_validate(yaml.safe_load(yaml.safe_dump(self._settings)))
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_input=False):
                name = ".".join(str(part) for part in problem["loc"])
                text = problem["msg"].removeprefix("Value error, ")
                self._problems.append(f"{name}: {text}")
