"""The settings: read once from the config file and the environment, validated, frozen."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from .core.errors import InvalidSettings
from .network.addresses import allowed_host

#: `auto`: the local one for the languages it understands, the endpoint for all others.
SpeechEngineName = Literal["auto", "local", "openai"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaOptions:
    #: The program; None: the one that is installed.
    ffmpeg: str | None = None
    max_duration: timedelta = timedelta(hours=12)
    speech_engine: SpeechEngineName = "auto"
    #: With a model for more languages, or a better one. None: the one that comes with us.
    speech_model_directory: str | None = None
    #: What is spoken where a job does not say. None: detected.
    speech_language: str | None = None
    #: One piece of a recording, of half a minute or so, may take so long.
    piece_timeout: timedelta = timedelta(minutes=5)
    #: Of one video.
    max_frames: int = 500
    #: A recording up to this size stays among the files of its job; 0: none does.
    keep_recording_bytes: int = 200 * 1024 * 1024


DEFAULT_FILE = Path("config/config.yaml")

#: Variables that are not of the form SECRETARY_<GROUP>__<KEY>, and where their value belongs.
PLAIN_VARIABLES = {
    "MONGODB_URI": ("storage", "mongodb_uri"),
    "SECRETARY_HANDLERS": (None, "handlers"),
    "SECRETARY_API_KEYS": ("access", "api_keys"),
    "SECRETARY_SERVICE_API_KEY": ("access", "api_keys"),
}
#: What a message must not repeat; a group that holds one may have it in the wrong place.
SECRET = frozenset(
    {"mongodb_uri", "api_keys", "storage", "access", "llm", "api_key", "base_url", "providers"}
)
#: In the environment taken as it is: a key may look like a number.
VERBATIM = frozenset({"api_key", "model", "chat_model", "vision_model", "transcription_model"})
#: Set by us for our own child processes; and where commands find a service elsewhere.
NOT_SETTINGS = frozenset({"SECRETARY_SANDBOX", "SECRETARY_URL", "SECRETARY_API_KEY"})


class Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Server(Group):
    host: str = "127.0.0.1"
    port: int = Field(default=5000, ge=0, le=65535)
    #: Addresses or ranges of proxies whose X-Forwarded-For is believed.
    trusted_proxies: tuple[str, ...] = ()


class Storage(Group):
    data_dir: Path = Path("data")
    mongodb_uri: str | None = None
    #: Directories whose files a job may name (`file_path`); uploads may always be named.
    source_roots: tuple[Path, ...] = ()
    #: Where files are kept that jobs bring and make: a `directory` (`data_dir`), the MongoDB
    #: (`gridfs`), or a bucket (`s3://…`). `auto` is the MongoDB where there is one.
    files: str = Field(default="auto", pattern=r"^(auto|directory|gridfs|s3://.+)$")


class Limits(Group):
    max_upload_mb: int = Field(default=1024, ge=1)
    #: Of everything that is not an upload.
    max_request_mb: int = Field(default=16, ge=1)
    #: Of one API key, or of one address where there are no keys; 0: no limit.
    requests_per_minute: int = Field(default=0, ge=0)


class GenericWorker(Group):
    active: bool = True
    max_concurrent_workers: Annotated[
        int,
        Field(
            default=3,
            ge=1,
            le=1000,
            validation_alias=AliasChoices("max_concurrent_workers", "max_concurrent"),
        ),
    ]
    poll_interval_sec: float = Field(default=1.0, gt=0, le=3600)
    max_concurrent_per_type: dict[str, Annotated[int, Field(ge=0)]] = {}
    max_concurrent_per_user: int | None = Field(default=None, ge=1)
    #: A job of a type that names no limit of its own may run for so long.
    timeout_sec: float = Field(default=3600, gt=0)
    #: The operator's word on single types; it wins over what their handlers say.
    timeout_sec_per_type: dict[str, Annotated[float, Field(gt=0)]] = {}
    memory_limit_mb: int = Field(default=2048, ge=64)
    #: Child processes that do the heavy work, the pages of a document in parallel; None: as many
    #: as there are processors, and at least one for each job.
    processes: int | None = Field(default=None, ge=1, le=1000)
    max_crashes: int = Field(default=2, ge=1)
    shutdown_grace_sec: float = Field(default=30, ge=0)
    #: Where `secretary worker` tells its health and metrics by HTTP; None: nowhere.
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)


class Documents(Group):
    ocr_engine: Literal["tesseract", "rapidocr"] = "tesseract"
    #: With data for more languages.
    ocr_data_directory: Path | None = None
    #: `deu`, `eng`, `deu+eng`; None: told from the text itself.
    ocr_language: str | None = None
    max_pages: int = Field(default=10_000, ge=1)
    #: Of a picture, and of a page when it is drawn.
    max_megapixels: float = Field(default=100, gt=0)
    page_timeout_sec: float = Field(default=120, gt=0)
    conversion_timeout_sec: float = Field(default=300, gt=0)


class Media(Group):
    #: The program; None: the one on the PATH, else the one that comes with us.
    ffmpeg: Path | None = None
    max_duration_hours: float = Field(default=12, gt=0, le=48)
    speech_engine: SpeechEngineName = "auto"
    #: With a Whisper model for CTranslate2; None: the English one that comes with us.
    speech_model_directory: Path | None = None
    #: What is spoken where a job does not say, like `en`; None: detected.
    speech_language: str | None = None
    piece_timeout_sec: float = Field(default=300, gt=0)
    max_frames: int = Field(default=500, ge=1, le=10_000)
    #: A recording up to this size is kept with its transcript, to listen along; 0: none is.
    keep_recording_mb: int = Field(default=200, ge=0)


class Cache(Group):
    max_mb: int = Field(default=10_240, ge=0)


class Retention(Group):
    """Days that ended jobs are kept; 0: for ever."""

    completed_days: float = Field(default=7, ge=0)
    failed_days: float = Field(default=30, ge=0)
    cancelled_days: float = Field(default=7, ge=0)
    #: So long a failed or cancelled job can be restarted with the file that came with it.
    failed_upload_hours: float = Field(default=24, ge=0)


class Access(Group):
    #: `key`, or `key:user` for one that can act for that user only.
    api_keys: tuple[Annotated[str, Field(pattern=r"^[^:\s]+(:.+)?$")], ...] = ()


def _host(entry: str) -> str:
    allowed_host(entry)
    return entry.strip()


def _hosts(value: Any) -> Any:
    """In the environment a list is easier to write with commas, and empty means none."""
    return _listed(value) if isinstance(value, str) else [] if value is None else value


class Network(Group):
    #: What may be reached by downloads and webhooks although it is not public.
    allow_hosts: Annotated[
        tuple[Annotated[str, AfterValidator(_host)], ...], BeforeValidator(_hosts)
    ] = ()
    download_max_mb: int = Field(default=1024, ge=1)
    download_timeout_sec: float = Field(default=900, gt=0)


def _endpoint(text: str) -> str:
    """No user, password or query: they would show in messages and logs."""
    if not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#@]*)?", text):
        raise ValueError("it must look like http://host:port/v1 or https://host/v1")
    return text


def _key(value: Any) -> Any:
    return (value.strip() or None) if isinstance(value, str) else value


BaseUrl = Annotated[str, AfterValidator(_endpoint)]
ApiKey = Annotated[str, Field(pattern=r"^[!-~]+$")]
OptionalKey = Annotated[ApiKey | None, BeforeValidator(_key), Field(repr=False)]


class LlmProvider(Group):
    """An endpoint that speaks OpenAI's protocol."""

    base_url: BaseUrl = "https://api.openai.com/v1"
    api_key: OptionalKey = None
    #: For one request with all its repetitions.
    timeout_sec: float = Field(default=300, gt=0)
    max_concurrent: int = Field(default=4, ge=1)


class LlmPrice(Group):
    #: Of a million tokens.
    input: float = Field(default=0, ge=0)
    output: float = Field(default=0, ge=0)
    #: Of a minute of sound.
    minute: float = Field(default=0, ge=0)


class Llm(Group):
    #: One endpoint for everything. Named ones are needed only where there are several.
    base_url: BaseUrl | None = None
    api_key: OptionalKey = None
    timeout_sec: float = Field(default=300, gt=0)
    max_concurrent: int = Field(default=4, ge=1)
    #: For chat and vision, where these name none of their own.
    model: str | None = None
    providers: dict[str, LlmProvider] = {}
    chat_provider: str | None = None
    chat_model: str | None = None
    #: What it holds at once, question and answer; a longer text is worked on in parts.
    context_tokens: int = Field(default=16_000, ge=1000)
    #: Sent with each request as they are, like {temperature: 0}.
    chat_parameters: dict[str, Any] = {}
    vision_provider: str | None = None
    vision_model: str | None = None
    vision_parameters: dict[str, Any] = {}
    transcription_provider: str | None = None
    transcription_model: str | None = None
    transcription_parameters: dict[str, Any] = {}
    #: By the name of the model.
    prices: dict[str, LlmPrice] = {}

    @field_validator("chat_provider", "vision_provider", "transcription_provider")
    @classmethod
    def _is_there(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is not None and name not in info.data.get("providers", {name}):
            raise ValueError("llm.providers has none of this name")
        return name

    @property
    def endpoint(self) -> LlmProvider | None:
        """The one for everything: a key alone means OpenAI's own."""
        given = {"base_url": self.base_url, "api_key": self.api_key}
        given = {key: value for key, value in given.items() if value is not None}
        limits = {"timeout_sec": self.timeout_sec, "max_concurrent": self.max_concurrent}
        return LlmProvider.model_validate({**given, **limits}) if given else None


class Templates(Group):
    #: With the operator's own; one that is called like one of ours takes its place.
    directory: Path | None = None


class Logging(Group):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Settings(Group):
    server: Server = Server()
    storage: Storage = Storage()
    generic_worker: GenericWorker = GenericWorker.model_validate({})
    documents: Documents = Documents()
    media: Media = Media()
    cache: Cache = Cache()
    retention: Retention = Retention()
    access: Access = Access()
    network: Network = Network()
    limits: Limits = Limits()
    llm: Llm = Llm()
    templates: Templates = Templates()
    logging: Logging = Logging()
    #: `module:function` of handlers from outside, or a module with handlers: `Registry.load`.
    handlers: tuple[str, ...] = ()

    @property
    def database_file(self) -> Path | None:
        """The file of the embedded store; None when MongoDB is used."""
        if self.storage.mongodb_uri:
            return None
        return self.storage.data_dir.resolve() / "secretary.db"

    @property
    def store_url(self) -> str:
        return self.storage.mongodb_uri or f"sqlite://{self.database_file}"


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Settings from the file, then the environment, then the command line: the last one wins."""
    values = _from_file(file)
    _merge(values, _from_environment(os.environ if environment is None else environment))
    _merge(values, overrides or {})
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise InvalidSettings(_explain(error)) from None


def _from_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        if not DEFAULT_FILE.exists():
            return {}
        file = DEFAULT_FILE
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(f"The config file {file} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"The config file {file} is not YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InvalidSettings(f"The config file {file} must hold groups of settings")
    return _with_old_names(values)


def _with_old_names(values: dict[str, Any]) -> dict[str, Any]:
    """The group `generic_worker` was called `session_worker`; the new name wins."""
    old = values.pop("session_worker", None)
    if isinstance(old, dict):
        new = values.get("generic_worker") or {}
        values["generic_worker"] = {**old, **new} if isinstance(new, dict) else new
    elif old is not None:
        values["session_worker"] = old
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in environment.items():
        if name in PLAIN_VARIABLES:
            group, key = PLAIN_VARIABLES[name]
            value: Any = text if key == "mongodb_uri" else _listed(text)
            target = values if group is None else values.setdefault(group, {})
            target[key] = [*target.get(key, []), *value] if isinstance(value, list) else value
        elif name.startswith("SECRETARY_") and name not in NOT_SETTINGS:
            *groups, key = name.removeprefix("SECRETARY_").lower().split("__")
            if not groups or not key:
                raise InvalidSettings(f"There is no setting for the environment variable {name}")
            value = text if key in VERBATIM else _parsed(text)
            for group in reversed(groups):  # SECRETARY_LLM__PROVIDERS__EYES__API_KEY has three
                key, value = group, {key: value}
            _merge(values, {key: value})
    return _with_old_names(values)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parsed(text: str) -> Any:
    """`3` is a number, `true` a truth, `{pdf: 2}` a mapping, anything else a text."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _merge(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = dict(value) if isinstance(value, Mapping) else value


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"{name}: there is no such setting")
        else:
            place = problem["loc"] if len(problem["loc"]) == 1 else problem["loc"][1:]
            shown = "" if SECRET & set(place) else f" (it is {problem['input']!r})"
            lines.append(f"{name}: {problem['msg']}{shown}")
    return "The settings cannot be used:\n  " + "\n  ".join(lines)


MEGAPIXEL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOptions:
    ocr_engine: str = "tesseract"
    #: Where more languages are, beside those that are installed.
    ocr_data_directory: str | None = None
    #: None: told from the text.
    ocr_language: str | None = None
    max_pages: int = 10_000
    #: Of a picture, and of a page when it is drawn.
    max_pixels: int = 100 * MEGAPIXEL
    #: One page may take so long.
    page_timeout: timedelta = timedelta(minutes=2)
    #: An office file may take so long on its way to a PDF.
    conversion_timeout: timedelta = timedelta(minutes=5)


MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    max_bytes: int = 1024 * MEBIBYTE
    total: timedelta = timedelta(minutes=15)
    idle: timedelta = timedelta(seconds=30)
    max_redirects: int = 5
