"""Translation by the chat model: of transcripts, which keep their times, and of Markdown."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter

from ..core.callables import in_batches, map_limited
from ..core.errors import ContextExceeded, InvalidParameters
from ..core.job import JobWarning
from ..core.languages import (
    COMMON_WORDS,
    detect_language,
    english_name,
    is_same_language,
    language_code,
)
from ..documents.markdown import TextChunk, split_blocks
from ..jobs.handler import JobContext
from ..jobs.job_log import counted
from ..media.speech.engines import TimedText, Transcription
from ..media.transcript import StoredTranscript, encode_record
from ..storage import append_log
from .parameters import LanguageParameters, strict_field
from .progress import StepProgress
from .text_generation import LlmCache, open_llm_cache

#: Characters of a transcript that are translated and cached together.
TRANSCRIPT_BATCH = 20_000
#: Tokens of a chunk of Markdown at most, and of the chunks that are translated together.
MAX_CHUNK, CHUNK_BATCH = 800, 2500
#: No chunk is made smaller than this many tokens.
MIN_CHUNK = 50
#: Characters that are enough to detect the language.
LANGUAGE_SAMPLE = 5000
WORD = re.compile(r"[^\W\d_]{2}")
WHITESPACE_AROUND = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


class TranslationParameters(LanguageParameters):
    """Parameters of job types whose text is translated if it is in another language."""

    strict: bool = strict_field()


TranslationContext = JobContext[TranslationParameters]


def check_translation(ctx: TranslationContext, language: str | None) -> None:
    """Fail as early as possible if the target language is unknown, or if a translation is required,
    but there is no model for it. `language` is that of the text, as far as it is known by now."""
    target, known = ctx.parameters.target_language, language_code(language or "")
    if target is None:
        return
    if language_code(target) is None:
        raise InvalidParameters(f"target_language: {target!r} is not a known language")
    if ctx.parameters.strict and known and not is_same_language(known, target):
        ctx.llm.model("chat")


async def untranslated_warnings(ctx: TranslationContext, language: str) -> list[JobWarning]:
    """A warning if the text is in another language than the target, and there is no model to
    translate it. Raises `EngineUnavailable` instead if the request is strict."""
    target = ctx.parameters.target_language
    if target is None or is_same_language(language, target):
        return []
    if ctx.parameters.strict:
        ctx.llm.model("chat")
    if "chat" in ctx.llm.options.models:
        return []
    known = language if language_code(language) else "an unknown language"
    message = (
        f"The text is in {english_name(known)} and was not translated into {english_name(target)}:"
        " no language model is configured (llm.chat_model)"
    )
    await ctx.log(message, "warning")
    return [JobWarning(code="TRANSLATION_UNAVAILABLE", message=message)]


async def translate_transcript(
    ctx: JobContext[LanguageParameters], spoken: StoredTranscript, target: str
) -> StoredTranscript:
    """The same sentences in another language, with their times."""
    code = language_code(target) or target
    sentences = await asyncio.to_thread(lambda: list(spoken.segments()))
    llm = await open_llm_cache(ctx, "\n".join(sentence.text for sentence in sentences))
    directory = ctx.scratch / "translated"
    directory.mkdir(exist_ok=True)
    batches = list(in_batches(sentences, lambda sentence: len(sentence.text), TRANSCRIPT_BATCH))
    await ctx.log(f"Translating {counted(len(sentences), 'sentence')} to {code}")
    for number, batch in enumerate(batches):
        texts = await llm.translate(
            [sentence.text for sentence in batch],
            source=spoken.language,
            target=code,
            instructions=None,
        )
        pairs = zip(batch, texts, strict=True)
        words = tuple(TimedText(sentence.start, sentence.end, text) for sentence, text in pairs)
        translation = Transcription(language=code, confidence=1.0, segments=words)
        record = await asyncio.to_thread(encode_record, translation)
        await asyncio.to_thread(append_log.append, str(directory), number, record)
        done = f"{number + 1}/{len(batches)}"
        await ctx.progress(f"translating:{done}", 90, f"{done} parts are translated")
    await ctx.log(llm.summary())
    return StoredTranscript(directory=str(directory), chunk_count=len(batches), language=code)


def detect_text_language(text: str) -> str | None:
    """The two-letter code, or None if it cannot be detected."""
    language = detect_language(text[:LANGUAGE_SAMPLE], tuple(COMMON_WORDS))
    return language_code(language) if language else None


async def translate_markdown(
    llm: LlmCache,
    text: str,
    *,
    source: str | None,
    target: str,
    instructions: str | None,
    progress: StepProgress,
) -> str:
    """Translate the text; code and front matter stay as they are."""
    code = language_code(target) or target
    ask = partial(llm.translate, source=source, target=code, instructions=instructions)
    chunks = await asyncio.to_thread(lambda: list(split_blocks(text, MAX_CHUNK)))
    batches = list(in_batches(chunks, attrgetter("tokens"), CHUNK_BATCH))
    progress.expect(len(batches))

    async def translate(batch: Sequence[TextChunk]) -> str:
        translation = await _translate_chunks(ask, batch)
        await progress.advance()
        return translation

    return "".join(await map_limited(batches, llm.concurrency, translate))


async def _translate_chunks(
    ask: Callable[[list[str]], Awaitable[list[str]]], chunks: Sequence[TextChunk]
) -> str:
    """The whitespace around each chunk stays. What exceeds the context of the model is split."""
    texts = [chunk.text for chunk in chunks]
    matches = {
        index: match
        for index, chunk in enumerate(chunks)
        if not chunk.is_code
        and WORD.search(chunk.text)
        and (match := WHITESPACE_AROUND.fullmatch(chunk.text))
    }
    if not matches:
        return "".join(texts)
    try:
        translations = await ask([match[2] for match in matches.values()])
    except ContextExceeded:
        max_tokens = max(chunk.tokens for chunk in chunks) // 2
        if max_tokens < MIN_CHUNK:
            text = "Not even a sentence fits into the context of the language model"
            raise ContextExceeded(text) from None
        parts = (
            part
            for chunk in chunks
            for part in ([chunk] if chunk.is_code else split_blocks(chunk.text, max_tokens))
        )
        return "".join([await _translate_chunks(ask, [part]) for part in parts])
    for (index, match), translation in zip(matches.items(), translations, strict=True):
        texts[index] = f"{match[1]}{translation.strip()}{match[3]}"
    return "".join(texts)
