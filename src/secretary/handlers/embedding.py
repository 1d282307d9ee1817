"""Job type `embedding`: splits a text into chunks and returns each with its embedding."""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from ..core.callables import in_batches, map_limited
from ..core.errors import FileTooLarge, UpstreamRefused
from ..core.job import iso, utc_now
from ..core.json_codec import clean_text, encode_json
from ..documents.assembly import RESULTS_FILE
from ..documents.chunking import Chunk, chunk_markdown
from ..documents.markdown import estimate_tokens
from ..documents.pages import write_new
from ..jobs.handler import JobContext, handles
from ..llm import Llm
from .parameters import (
    MAX_TEXT,
    CacheParameters,
    EmbeddingResults,
    JsonObject,
    RecordCache,
    is_from_cache,
    text_field,
)
from .progress import StepProgress

TIMEOUT = timedelta(hours=2)
DEFAULT_SIZE, DEFAULT_OVERLAP = 1000, 200
#: Per request. Endpoints accept more, but a smaller batch is repeated sooner after an error.
MAX_BATCH_CHUNKS, MAX_BATCH_TOKENS = 64, 50_000
#: The result is one JSON document, which has to fit into memory.
MAX_CHUNKS, MAX_VALUES = 10_000, 10_000_000


class EmbeddingParameters(CacheParameters):
    markdown: str = Field(max_length=MAX_TEXT, description="The text, as Markdown or plain text")
    document_id: str | None = text_field(500, "The client's id of the document")
    chunk_size: int = Field(
        default=DEFAULT_SIZE,
        ge=1,
        le=2 * MAX_TEXT,
        description="Maximum length of a chunk in characters",
    )
    chunk_overlap: int | None = Field(
        default=None,
        ge=0,
        description="How many characters of a chunk the next one may repeat; default 200, or a"
        " fifth of a smaller `chunk_size`",
    )
    embedding_model: str | None = text_field(
        200, "Name of the model, instead of the one in the settings"
    )
    embedding_dimensions: int | None = Field(
        default=None, ge=1, le=65_536, description="Required length of the vectors"
    )
    metadata: JsonObject = Field(default=None, description="Returned as it is")

    @field_validator("markdown")
    @classmethod
    def _has_text(cls, markdown: str) -> str:
        if not markdown.strip():
            raise ValueError("it is empty")
        return markdown

    @field_validator("chunk_overlap")
    @classmethod
    def _is_smaller(cls, overlap: int | None, info: ValidationInfo) -> int | None:
        size = info.data.get("chunk_size")
        if overlap is not None and size is not None and overlap >= size:
            raise ValueError("it must be smaller than chunk_size")
        return overlap

    @property
    def overlap(self) -> int:
        if self.chunk_overlap is not None:
            return self.chunk_overlap
        return min(DEFAULT_OVERLAP, self.chunk_size // 5)


EmbeddingContext = JobContext[EmbeddingParameters]


@handles("embedding", EmbeddingParameters, timeout=TIMEOUT, io_bound=True)
async def embedding(ctx: EmbeddingContext) -> EmbeddingResults:
    await ctx.progress("initializing", 0)
    parameters = ctx.parameters
    llm = ctx.llm.with_model("embedding", parameters.embedding_model)
    split = partial(chunk_markdown, size=parameters.chunk_size, overlap=parameters.overlap)
    chunks = await asyncio.to_thread(split, clean_text(parameters.markdown))
    _check_size(len(chunks), parameters.embedding_dimensions)
    vectors, processed = await _embed(ctx, llm, chunks)
    await ctx.progress("postprocessing", 95)
    documents = [
        _chunk_document(number, chunk, vector, parameters.document_id)
        for number, (chunk, vector) in enumerate(zip(chunks, vectors, strict=True))
    ]
    content = await asyncio.to_thread(encode_json, {"chunks": documents})
    await asyncio.to_thread(write_new, ctx.directory / RESULTS_FILE, content)
    return EmbeddingResults(
        document_id=parameters.document_id,
        total_chunks=len(chunks),
        embedding_model=llm.model("embedding"),
        embedding_dimensions=len(vectors[0]),
        created_at=iso(utc_now()),
        metadata=parameters.metadata or {},
        markdown_file=None,
        archive_filename=None,
        context=None,
        is_from_cache=is_from_cache(ctx, processed=processed),
        llm_info=llm.info(),
        more_in=RESULTS_FILE,
    )


def _check_size(chunks: int, dimensions: int | None) -> None:
    limit = min(MAX_CHUNKS, MAX_VALUES // (dimensions or 1))
    if chunks > limit:
        raise FileTooLarge(
            f"The text has {chunks:,} chunks; the limit is {limit:,}. Send it in parts, or use a"
            " larger chunk_size",
            chunks=chunks,
            limit=limit,
        )


async def _embed(
    ctx: EmbeddingContext, llm: Llm, chunks: Sequence[Chunk]
) -> tuple[list[list[float]], bool]:
    """The vectors of the chunks, and whether the model was asked for any."""
    parameters, model = ctx.parameters, llm.options.model("embedding")
    digest = hashlib.sha256(parameters.markdown.encode("utf-8", "replace")).hexdigest()
    options = {
        "model": model.name,
        "parameters": dict(model.parameters),
        "endpoint": model.provider.base_url,
        "dimensions": parameters.embedding_dimensions,
        "chunks": [parameters.chunk_size, parameters.overlap],
    }
    cache = await RecordCache.open(ctx, "text", digest, "embeddings", options=options)
    texts = [chunk.text for chunk in chunks]
    batches = in_batches(texts, estimate_tokens, MAX_BATCH_TOKENS, max_items=MAX_BATCH_CHUNKS)
    numbered = list(enumerate(batches))
    progress = StepProgress(ctx, "embedding", 5, 94)
    progress.expect(len(numbered))
    processed = False

    async def embed(batch: tuple[int, list[str]]) -> list[list[float]]:
        number, texts = batch

        async def ask() -> list[list[float]]:
            nonlocal processed
            processed = True
            return await llm.embeddings(texts, dimensions=parameters.embedding_dimensions)

        vectors: list[list[float]] = await cache.load_or_make(number, ask)
        await progress.advance()
        return vectors

    results = await map_limited(numbered, model.provider.max_concurrent, embed)
    vectors = [vector for batch in results for vector in batch]
    if len(lengths := {len(vector) for vector in vectors}) != 1:
        listed = ", ".join(map(str, sorted(lengths)))
        raise UpstreamRefused(
            f"The embedding model returned vectors of different lengths: {listed}"
        )
    _check_size(len(chunks), len(vectors[0]))
    return vectors, processed


def _chunk_document(
    number: int, chunk: Chunk, vector: list[float], document_id: str | None
) -> dict[str, Any]:
    """As clients read it. `metadata` is empty: clients merge it over fields of their own."""
    return {
        "chunk_index": number,
        "text": chunk.text,
        "embedding": vector,
        "heading_context": chunk.heading_context,
        "start_char": chunk.start,
        "end_char": chunk.end,
        "document_id": document_id,
        "metadata": {},
    }
