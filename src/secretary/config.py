"""The settings: read once from the config file and the environment, validated, frozen.

Plain pydantic instead of pydantic-settings: values in the environment are YAML, an unknown
`SECRETARY_` variable is an error, and importing the library would add 0.1 s to every command.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from .core.errors import InvalidSettings
from .network import DOWNLOAD_MAX_MB, DOWNLOAD_TIMEOUT_SEC, DownloadLimits
from .network.addresses import parse_allowed_host

MEBIBYTE = 1024 * 1024

DEFAULT_FILE = Path("config/config.yaml")

#: Environment variables that do not follow SECRETARY_<GROUP>__<KEY>, and the setting of each.
PLAIN_VARIABLES = {
    "MONGODB_URI": ("storage", "mongodb_uri"),
    "SECRETARY_HANDLERS": (None, "handlers"),
    "SECRETARY_API_KEYS": ("access", "api_keys"),
    "SECRETARY_SERVICE_API_KEY": ("access", "api_keys"),
    "SECRETARY_METRICS_API_KEY": ("access", "api_keys"),
}
#: Environment variables with the key of an endpoint in `llm.providers` that sets none.
PROVIDER_KEYS = {
    "OPENAI_API_KEY": "openai",
    "OPENROUTER_API_KEY": "openrouter",
    "MISTRAL_API_KEY": "mistral",
    "VOYAGE_API_KEY": "voyageai",
}
#: Settings whose values must not appear in an error message, and the groups that contain them:
#: a secret may be at the wrong level.
SECRET = frozenset(
    {"mongodb_uri", "api_keys", "storage", "access", "llm", "api_key", "base_url", "providers"}
)
#: Taken verbatim from the environment, not parsed as YAML: a key may look like a number.
VERBATIM = frozenset({
    "api_key", "model", "chat_model", "vision_model", "transcription_model", "embedding_model",
    "image_model",
})  # fmt: skip
#: Variables that are not settings: the sandbox's own, and those of the client commands.
NOT_SETTINGS = frozenset({"SECRETARY_SANDBOX", "SECRETARY_URL", "SECRETARY_API_KEY"})


#: A path that is passed on to another process as text.
PathText = Annotated[str, AfterValidator(lambda text: str(Path(text)))]
AbsolutePathText = Annotated[str, AfterValidator(lambda text: str(Path(text).resolve()))]


class Group(BaseModel):
    """Base of the groups of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ServerSettings(Group):
    host: str = "127.0.0.1"
    port: int = Field(default=5000, ge=0, le=65535)
    #: Addresses or ranges of proxies whose X-Forwarded-For header is trusted.
    trusted_proxies: tuple[str, ...] = ()


class StorageSettings(Group):
    data_dir: Path = Path("data")
    mongodb_uri: str | None = None
    #: Directories whose files a job may name with `file_path`; uploads are always allowed.
    source_roots: tuple[Path, ...] = ()
    #: Where uploads and artifacts are stored: in `data_dir` (`directory`), in MongoDB (`gridfs`)
    #: or in a bucket (`s3://…`). `auto` is MongoDB where one is configured.
    files: str = Field(default="auto", pattern=r"^(auto|directory|gridfs|s3://.+)$")


class LimitSettings(Group):
    max_upload_mb: int = Field(default=1024, ge=1)
    #: For requests other than uploads.
    max_request_mb: int = Field(default=16, ge=1)
    #: Per API key, or per client address where there are no keys; 0 means unlimited.
    requests_per_minute: int = Field(default=0, ge=0)
    #: How long a request waits for the result of its job before it returns 202.
    max_wait_sec: float = Field(default=900, gt=0)


class GenericWorkerSettings(Group):
    active: bool = True
    max_concurrent_workers: Annotated[
        int,
        Field(default=3, ge=1, le=1000),
        Field(validation_alias=AliasChoices("max_concurrent_workers", "max_concurrent")),
    ]
    #: Further jobs of the types that wait for the network most of the time, such as `transformer`:
    #: they do not queue behind long jobs.
    max_concurrent_io: int = Field(default=16, ge=1, le=1000)
    poll_interval_sec: float = Field(default=1.0, gt=0, le=3600)
    max_concurrent_per_type: dict[str, Annotated[int, Field(ge=0)]] = {}
    max_concurrent_per_user: int | None = Field(default=None, ge=1)
    #: Default timeout for job types that set none.
    timeout_sec: float = Field(default=3600, gt=0)
    #: Timeouts per job type; they override those of the handlers.
    timeout_sec_per_type: dict[str, Annotated[float, Field(gt=0)]] = {}
    memory_limit_mb: int = Field(default=2048, ge=64)
    #: Sandbox processes, shared by all jobs. None: one per CPU, but at least one per job slot.
    processes: int | None = Field(default=None, ge=1, le=1000)
    #: Whether Linux confines the processes that read documents to the files of their job, without
    #: network: as far as the kernel can (`auto`), or not at all, or refuse to start if it cannot.
    fence: Literal["auto", "required", "off"] = "auto"
    #: Whether your own handlers are confined to files, too. They keep the network.
    fence_handlers: bool = False
    max_crashes: int = Field(default=2, ge=1)
    shutdown_grace_sec: float = Field(default=30, ge=0)
    #: Where `secretary worker` serves health checks and metrics. No port: nowhere.
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)


class DocumentSettings(Group):
    ocr_engine: Literal["tesseract", "rapidocr"] = "tesseract"
    #: Directory with data for further OCR languages.
    ocr_data_directory: PathText | None = None
    #: `deu`, `eng`, `deu+eng`. None: detected from the text.
    ocr_language: str | None = None
    max_pages: int = Field(default=10_000, ge=1)
    #: Of an image, and of a rendered page.
    max_megapixels: float = Field(default=100, gt=0)
    page_timeout_sec: float = Field(default=120, gt=0)
    conversion_timeout_sec: float = Field(default=300, gt=0)

    @property
    def max_pixels(self) -> int:
        return int(self.max_megapixels * 1_000_000)

    @property
    def page_timeout(self) -> timedelta:
        return timedelta(seconds=self.page_timeout_sec)

    @property
    def conversion_timeout(self) -> timedelta:
        return timedelta(seconds=self.conversion_timeout_sec)


class MediaSettings(Group):
    #: The program. None: the one on the PATH, or else the bundled one.
    ffmpeg: PathText | None = None
    max_duration_hours: float = Field(default=12, gt=0, le=48)
    #: `auto`: the local model for the languages it knows, the endpoint for all others.
    speech_engine: Literal["auto", "local", "openai"] = "auto"
    #: A Whisper model for CTranslate2. None: the bundled English one.
    speech_model_directory: AbsolutePathText | None = None
    #: Spoken language of recordings whose job names none, such as `en`. None: detected.
    speech_language: str | None = None
    piece_timeout_sec: float = Field(default=300, gt=0)
    #: Slides per video.
    max_frames: int = Field(default=500, ge=1, le=10_000)
    #: Recordings up to this size are kept with their transcript, for playback; 0 keeps none.
    keep_recording_mb: int = Field(default=200, ge=0)

    @property
    def max_duration(self) -> timedelta:
        return timedelta(hours=self.max_duration_hours)


class CacheSettings(Group):
    max_mb: int = Field(default=10_240, ge=0)


class RetentionSettings(Group):
    """Days after which finished jobs are deleted; 0 keeps them forever."""

    #: The longest `retention_days` that a request may ask for; 0 means any.
    max_days: float = Field(default=90, ge=0)

    completed_days: float = Field(default=7, ge=0)
    failed_days: float = Field(default=30, ge=0)
    cancelled_days: float = Field(default=7, ge=0)
    #: How long a failed or cancelled job keeps its upload, so that it can be restarted.
    failed_upload_hours: float = Field(default=24, ge=0)


def _in_utc(time: datetime) -> datetime:
    """A time without an offset is UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


class ApiKeySettings(Group):
    """A key with fewer rights, or for a limited time."""

    key: str = Field(pattern=r"^[^:\s]+$", repr=False)
    #: The only user it may act for.
    user: str | None = Field(default=None, min_length=1, max_length=200)
    #: `read`: jobs, files and statistics. `submit`: new jobs. `operate`: change and delete existing
    #: jobs. `metrics`: `/metrics`.
    scopes: tuple[Literal["read", "submit", "operate", "metrics"], ...] = Field(
        default=("read", "submit", "operate", "metrics"), min_length=1
    )
    #: The key is refused from then on. A date means its beginning, UTC.
    expires_at: Annotated[datetime, AfterValidator(_in_utc)] | None = None


def _key_form(value: Any) -> str:
    return "text" if isinstance(value, str) else "key"


class AccessSettings(Group):
    #: `key` for operators, `key:user` for a key that acts for one user only, or in detail.
    api_keys: tuple[
        Annotated[
            Annotated[str, Field(pattern=r"^[^:\s]+(:.+)?$"), Tag("text")]
            | Annotated[ApiKeySettings, Tag("key")],
            Discriminator(_key_form),
        ],
        ...,
    ] = ()


class QuotaLimits(Group):
    """What a user may use per day (UTC) and store; 0 means unlimited."""

    jobs_per_day: int = Field(default=0, ge=0)
    #: Pages of documents that were read; cached ones do not count.
    pages_per_day: int = Field(default=0, ge=0)
    #: Audio that was transcribed; cached transcripts do not count.
    audio_minutes_per_day: float = Field(default=0, ge=0)
    #: Uploads and result files of all existing jobs.
    stored_mb: int = Field(default=0, ge=0)


class QuotaSettings(QuotaLimits):
    #: Other limits for single users.
    users: dict[str, QuotaLimits] = {}

    @property
    def enabled(self) -> bool:
        return any(
            getattr(limits, name)
            for limits in (self, *self.users.values())
            for name in QuotaLimits.model_fields
        )

    def limits_of(self, user: str) -> QuotaLimits:
        """A user's own limits take precedence, one by one."""
        own = self.users.get(user)
        if own is None:
            return self
        defaults = {name: getattr(self, name) for name in QuotaLimits.model_fields}
        return QuotaLimits(**defaults | own.model_dump(exclude_unset=True))


def _host(entry: str) -> str:
    parse_allowed_host(entry)
    return entry.strip()


def _host_list(value: Any) -> Any:
    """Accept a comma-separated text, which is easier to write in the environment."""
    return _split(value) if isinstance(value, str) else [] if value is None else value


class NetworkSettings(Group):
    #: Hosts that downloads and webhooks may reach although they are not public.
    allow_hosts: Annotated[
        tuple[Annotated[str, AfterValidator(_host)], ...], BeforeValidator(_host_list)
    ] = ()
    #: For development: downloads and webhooks may reach this machine and local networks, webhooks
    #: also over plain HTTP. Cloud metadata services stay out of reach.
    allow_private: bool = False
    download_max_mb: int = Field(default=DOWNLOAD_MAX_MB, ge=1)
    download_timeout_sec: float = Field(default=DOWNLOAD_TIMEOUT_SEC, gt=0)

    @property
    def download_limits(self) -> DownloadLimits:
        return DownloadLimits(
            max_bytes=self.download_max_mb * MEBIBYTE,
            total=timedelta(seconds=self.download_timeout_sec),
        )


def _base_url(text: str) -> str:
    """Without user, password or query: they would appear in messages and logs."""
    if not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#@]*)?", text):
        raise ValueError("it must look like http://host:port/v1 or https://host/v1")
    return text


BaseUrl = Annotated[str, AfterValidator(_base_url)]
ApiKey = Annotated[str, Field(pattern=r"^[!-~]+$")]
_STRIP = BeforeValidator(lambda value: (value.strip() or None) if isinstance(value, str) else value)
OptionalKey = Annotated[ApiKey | None, _STRIP, Field(repr=False)]


_LLM_TIMEOUT_SEC = 300
_LLM_MAX_CONCURRENT = 4


class LlmProviderSettings(Group):
    """An endpoint with an OpenAI-compatible API."""

    base_url: BaseUrl = "https://api.openai.com/v1"
    api_key: OptionalKey = None
    #: For one request including its retries.
    timeout_sec: float = Field(default=_LLM_TIMEOUT_SEC, gt=0)
    max_concurrent: int = Field(default=_LLM_MAX_CONCURRENT, ge=1)


class LlmPriceSettings(Group):
    """What a model costs, in any currency."""

    #: Per million tokens.
    input: float = Field(default=0, ge=0)
    output: float = Field(default=0, ge=0)
    #: Per minute of audio.
    minute: float = Field(default=0, ge=0)
    #: Per generated image.
    image: float = Field(default=0, ge=0)


class LlmSettings(Group):
    #: One endpoint for everything; `providers` are for several.
    base_url: BaseUrl | None = None
    api_key: OptionalKey = None
    timeout_sec: float = Field(default=_LLM_TIMEOUT_SEC, gt=0)
    max_concurrent: int = Field(default=_LLM_MAX_CONCURRENT, ge=1)
    #: For chat and vision, unless they set their own.
    model: str | None = None
    providers: dict[str, LlmProviderSettings] = {}
    chat_provider: str | None = None
    chat_model: str | None = None
    #: Context window of the chat model, prompt and answer. Longer texts are split.
    context_tokens: int = Field(default=16_000, ge=1000)
    #: Sent with each request as they are, for example {temperature: 0}.
    chat_parameters: dict[str, Any] = {}
    vision_provider: str | None = None
    vision_model: str | None = None
    vision_parameters: dict[str, Any] = {}
    transcription_provider: str | None = None
    transcription_model: str | None = None
    transcription_parameters: dict[str, Any] = {}
    #: An endpoint with the Mistral OCR API, for `/api/pdf/process-mistral-ocr`.
    ocr_provider: str | None = None
    ocr_model: str | None = None
    ocr_parameters: dict[str, Any] = {}
    embedding_provider: str | None = None
    embedding_model: str | None = None
    embedding_parameters: dict[str, Any] = {}
    #: Generates images.
    image_provider: str | None = None
    image_model: str | None = None
    image_parameters: dict[str, Any] = {}
    #: By model name.
    prices: dict[str, LlmPriceSettings] = {}

    @field_validator(
        "chat_provider",
        "vision_provider",
        "transcription_provider",
        "embedding_provider",
        "image_provider",
    )
    @classmethod
    def _is_defined(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is not None and name not in info.data.get("providers", {name}):
            raise ValueError("llm.providers has none of this name")
        return name

    @property
    def default_provider(self) -> LlmProviderSettings | None:
        """The endpoint for everything. An API key alone means OpenAI."""
        if self.base_url is None and self.api_key is None:
            return None
        given = self.model_dump(include=set(LlmProviderSettings.model_fields), exclude_none=True)
        return LlmProviderSettings.model_validate(given)


class TemplateSettings(Group):
    #: Your own templates; one with the name of a built-in template replaces it.
    directory: Path | None = None


class WebhookSettings(Group):
    #: How long a receiver may take to respond to a final event.
    final_timeout_sec: float = Field(default=600, gt=0, le=3600)
    #: How long to wait before a final event is sent again that a receiver may have processed.
    uncertain_retry_sec: float = Field(default=1800, gt=0, le=86_400)


class LoggingSettings(Group):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Settings(Group):
    server: ServerSettings = ServerSettings()
    storage: StorageSettings = StorageSettings()
    generic_worker: GenericWorkerSettings = GenericWorkerSettings.model_validate({})
    documents: DocumentSettings = DocumentSettings()
    media: MediaSettings = MediaSettings()
    cache: CacheSettings = CacheSettings()
    retention: RetentionSettings = RetentionSettings()
    access: AccessSettings = AccessSettings()
    network: NetworkSettings = NetworkSettings()
    limits: LimitSettings = LimitSettings()
    quotas: QuotaSettings = QuotaSettings()
    llm: LlmSettings = LlmSettings()
    templates: TemplateSettings = TemplateSettings()
    webhooks: WebhookSettings = WebhookSettings()
    logging: LoggingSettings = LoggingSettings()
    #: Your own handlers: `module:function`, or a module that defines some (see `Registry.load`).
    handlers: tuple[str, ...] = ()

    @property
    def data_directory(self) -> Path:
        return self.storage.data_dir.resolve()

    @property
    def database_file(self) -> Path | None:
        """The file of the embedded store; None with MongoDB."""
        return None if self.storage.mongodb_uri else self.data_directory / "secretary.db"

    @property
    def store_url(self) -> str:
        return self.storage.mongodb_uri or f"sqlite://{self.database_file}"


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Read the settings. The environment overrides the file, `overrides` both."""
    environment = os.environ if environment is None else environment
    values = _from_file(file)
    _merge(values, _from_environment(environment))
    _merge(values, overrides or {})
    _add_provider_keys(values, environment)
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise InvalidSettings(_explain(error)) from None


def _from_file(file: Path | None) -> dict[str, Any]:
    if file is None and not DEFAULT_FILE.exists():
        return {}
    file = file or DEFAULT_FILE
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(f"The config file {file} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"The config file {file} is not YAML: {error}") from None
    if not isinstance(values, dict | None):
        raise InvalidSettings(f"The config file {file} must hold groups of settings")
    return _rename_deprecated(values or {})


def _rename_deprecated(values: dict[str, Any]) -> dict[str, Any]:
    """`session_worker` is the deprecated name of `generic_worker`, which takes precedence."""
    deprecated = values.pop("session_worker", None)
    if isinstance(deprecated, dict):
        current = values.get("generic_worker") or {}
        merged = {**deprecated, **current} if isinstance(current, dict) else current
        values["generic_worker"] = merged
    elif deprecated is not None:
        values["session_worker"] = deprecated
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    # Those with a name of their own come last: their lists are added to the others.
    for name, text in sorted(environment.items(), key=lambda item: item[0] in PLAIN_VARIABLES):
        if name in PLAIN_VARIABLES:
            group, key = PLAIN_VARIABLES[name]
            value: Any = text if key == "mongodb_uri" else _split(text)
            if name == "SECRETARY_METRICS_API_KEY":
                value = [{"key": one, "scopes": ["metrics"]} for one in value]
            target = values if group is None else values.setdefault(group, {})
            before = target.get(key, [])
            if isinstance(value, list) and isinstance(before, list):
                value = [*before, *value]
            target[key] = value
        elif name.startswith("SECRETARY_") and name not in NOT_SETTINGS:
            *groups, key = name.removeprefix("SECRETARY_").lower().split("__")
            if not groups or not key:
                raise InvalidSettings(f"There is no setting for the environment variable {name}")
            value = text
            if key not in VERBATIM:
                with suppress(yaml.YAMLError):
                    value = yaml.safe_load(text)  # a number, boolean, mapping or text
            for group in reversed(groups):  # SECRETARY_LLM__PROVIDERS__EYES__API_KEY has three
                key, value = group, {key: value}
            _merge(values, {key: value})
    return _rename_deprecated(values)


def _add_provider_keys(values: dict[str, Any], environment: Mapping[str, str]) -> None:
    """A key is only used for an endpoint of this name that the settings define."""
    llm = values.get("llm")
    providers = llm.get("providers") if isinstance(llm, dict) else None
    if not isinstance(providers, dict):
        return
    keys = {name: environment.get(variable) for variable, name in PROVIDER_KEYS.items()}
    with_keys = {
        name: {**provider, "api_key": provider.get("api_key") or keys[name]}
        if isinstance(provider, dict) and keys.get(name)
        else provider
        for name, provider in providers.items()
    }
    values["llm"] = {**values["llm"], "providers": with_keys}


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


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
        if problem["type"] == "extra_forbidden" and "api_keys" in problem["loc"]:
            # It may be a key: `- KEY: user` with a space is a mapping in YAML.
            fields = ", ".join(ApiKeySettings.model_fields)
            lines.append(f"access.api_keys.{problem['loc'][2]}: a key in detail has only {fields}")
        elif problem["type"] == "extra_forbidden":
            lines.append(f"{name}: there is no such setting")
        else:
            path = problem["loc"] if len(problem["loc"]) == 1 else problem["loc"][1:]
            value = "" if SECRET & set(path) else f" (got {problem['input']!r})"
            lines.append(f"{name}: {problem['msg']}{value}")
    return "Invalid settings:\n  " + "\n  ".join(lines)
