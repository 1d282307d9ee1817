"""Job type `chat`: sends messages to the chat model, for an answer as text or as a JSON object."""

import asyncio
import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, field_validator

from ..core.errors import AnswerCutOff, ProcessingTimeout, UpstreamFailed
from ..core.job import JobWarning
from ..core.json_codec import encode_json
from ..documents.assembly import RESULTS_FILE
from ..documents.text_output import OUTPUT_FILES, RESULT_FILE, TextOutput, write_text_output
from ..jobs.handler import JobContext, handles
from ..jobs.submission import require_plain_json
from ..llm.structured import ask_for_object, check_schema
from .parameters import (
    MAX_TEXT,
    AnswerResults,
    JsonObject,
    ModelParameters,
    RecordCache,
    is_from_cache,
    parse_json,
    text_field,
    with_requested_model,
)

TIMEOUT = timedelta(hours=1)
MAX_MESSAGES = 1000
#: Any object, for JSON mode without a schema.
ANY_OBJECT = {"type": "object"}


class ChatMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str = Field(max_length=MAX_TEXT)


def _format_name(value: Any) -> Any:
    """OpenAI's form is an object with a `type`."""
    value = parse_json(value) if isinstance(value, str) and value.lstrip()[:1] == "{" else value
    return value.get("type") if isinstance(value, dict) else value


class ChatParameters(ModelParameters):
    messages: Annotated[list[ChatMessage], BeforeValidator(parse_json)] = Field(
        min_length=1,
        max_length=MAX_MESSAGES,
        description="`[{role, content}]`, or the same as JSON text; roles are `system`,"
        " `developer`, `user` and `assistant`",
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Randomness of the answer"
    )
    max_tokens: int | None = Field(
        default=None, ge=1, le=10_000_000, description="Maximum length of the answer"
    )
    response_format: Annotated[
        Literal["text", "json_object"] | None, BeforeValidator(_format_name)
    ] = Field(
        default=None,
        description="Default `json_object` if there is a schema, otherwise `text`. OpenAI's form,"
        " an object with a `type`, is accepted as well",
    )
    answer_schema: JsonObject = Field(
        default=None,
        validation_alias=AliasChoices("schema_json", "schemaJson"),
        description="JSON Schema of the answer, also as JSON text",
    )
    schema_id: str | None = text_field(200, "The client's name of the schema")
    strict: bool = Field(default=False, description="Fail if the answer does not match the schema")
    timeout_ms: int | None = Field(
        default=None, ge=1, le=86_400_000, description="Fail if the model takes longer"
    )

    @field_validator("messages")
    @classmethod
    def _has_content(cls, messages: list[ChatMessage]) -> list[ChatMessage]:
        if not any(message.content.strip() for message in messages):
            raise ValueError("all messages are empty")
        return messages

    @field_validator("answer_schema")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            require_plain_json(schema)
            check_schema(schema)
        return schema

    @property
    def wanted_schema(self) -> dict[str, Any] | None:
        """The schema of an answer in JSON; None for an answer as text."""
        if self.response_format == "json_object":
            return self.answer_schema or ANY_OBJECT
        return self.answer_schema if self.response_format is None else None

    @property
    def conversation(self) -> list[dict[str, Any]]:
        return [message.model_dump() for message in self.messages]

    @property
    def sampling(self) -> dict[str, Any]:
        given = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in given.items() if value is not None}


ChatContext = JobContext[ChatParameters]


class Answer(BaseModel):
    """As it is cached."""

    text: str
    structured_data: dict[str, Any] | None = None
    warnings: list[JobWarning] = []


@handles("chat", ChatParameters, timeout=TIMEOUT, io_bound=True)
async def chat(ctx: ChatContext) -> AnswerResults:
    await ctx.progress("initializing", 0)
    llm, warnings = with_requested_model(ctx.llm, "chat", ctx.parameters)
    ctx = replace(ctx, llm=llm)
    answer, processed = await _cached_answer(ctx)
    await ctx.progress("postprocessing", 95)
    return await _write_results(ctx, answer, warnings, processed=processed)


async def _cached_answer(ctx: ChatContext) -> tuple[Answer, bool]:
    """The answer, and whether the model was asked for it."""
    parameters, model = ctx.parameters, ctx.llm.options.model("chat")
    question = [parameters.conversation, parameters.sampling, parameters.wanted_schema]
    digest = await asyncio.to_thread(lambda: hashlib.sha256(encode_json(question)).hexdigest())
    options = {
        "model": model.name,
        "parameters": dict(model.parameters),
        "endpoint": model.provider.base_url,
        "strict": parameters.strict,
    }
    cache = await RecordCache.open(ctx, "text", digest, "chat", options=options)
    processed = False

    async def ask() -> Any:
        nonlocal processed
        processed = True
        await ctx.progress("asking", 10)
        return (await _ask(ctx)).model_dump()

    return Answer.model_validate(await cache.load_or_make(0, ask)), processed


async def _ask(ctx: ChatContext) -> Answer:
    milliseconds = ctx.parameters.timeout_ms
    try:
        async with asyncio.timeout(milliseconds / 1000 if milliseconds else None):
            if ctx.parameters.wanted_schema is None:
                return await _ask_for_text(ctx)
            return await _ask_for_json(ctx, ctx.parameters.wanted_schema)
    except TimeoutError:
        text = f"The language model took longer than the timeout_ms of {milliseconds}"
        raise ProcessingTimeout(text, limit_seconds=(milliseconds or 0) / 1000) from None


async def _ask_for_text(ctx: ChatContext) -> Answer:
    parameters = ctx.parameters
    try:
        messages, sampling = parameters.conversation, parameters.sampling
        return Answer(text=await ctx.llm.chat("chat", messages, optional=sampling))
    except AnswerCutOff as error:
        if parameters.max_tokens is None or not error.partial:
            raise
        text = f"The answer was cut off after max_tokens ({parameters.max_tokens})"
        warning = JobWarning(code="ANSWER_CUT_OFF", message=text)
        return Answer(text=error.partial, warnings=[warning])


async def _ask_for_json(ctx: ChatContext, schema: dict[str, Any]) -> Answer:
    parameters = ctx.parameters
    answer = await ask_for_object(
        ctx.llm, parameters.conversation, schema, optional=parameters.sampling
    )
    warnings = []
    if answer.problems:
        text = "The answer of the language model does not match the schema"
        if parameters.strict:
            raise UpstreamFailed(f"{text}: {answer.problems[0]}", faults=answer.problems)
        warnings = [
            JobWarning(code="SCHEMA_MISMATCH", message=f"{text}: {'; '.join(answer.problems)}")
        ]
    text = json.dumps(answer.fields, ensure_ascii=False, indent=2)
    return Answer(text=text, structured_data=answer.fields, warnings=warnings)


async def _write_results(
    ctx: ChatContext, answer: Answer, warnings: list[JobWarning], *, processed: bool
) -> AnswerResults:
    warnings = [*warnings, *answer.warnings]
    for warning in warnings:
        await ctx.log(warning.message, "warning")
    is_json = answer.structured_data is not None
    target_format: Literal["json", "markdown"] = "json" if is_json else "markdown"
    output = TextOutput(
        directory=str(ctx.directory),
        markdown=answer.text,
        structured_data=answer.structured_data,
        target_format=target_format,
    )
    await asyncio.to_thread(write_text_output, output)
    metadata = {"model": ctx.llm.model("chat"), "schema_id": ctx.parameters.schema_id}
    return AnswerResults(
        text_file=OUTPUT_FILES[target_format],
        markdown_file=None if is_json else RESULT_FILE,
        archive_filename=None,
        context=None,
        is_from_cache=is_from_cache(ctx, processed=processed),
        metadata={name: value for name, value in metadata.items() if value is not None},
        llm_info=ctx.llm.info(),
        warnings=warnings,
        more_in=RESULTS_FILE,
    )
