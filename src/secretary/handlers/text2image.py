"""Job type `text2image`: generates images from a description."""

import asyncio
import base64
import binascii
import hashlib
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator

from ..core.callables import LazyCallable, map_limited
from ..core.errors import FileCorrupt, FileTooLarge, UnsupportedFile, UpstreamRefused
from ..core.job import JobWarning
from ..core.json_codec import clean_text, encode_json
from ..documents.assembly import RESULTS_FILE
from ..documents.pages import write_new
from ..jobs.handler import JobContext, handles
from ..llm.endpoints import GeneratedImage
from .parameters import (
    ImageFile,
    ImageResults,
    ModelParameters,
    RecordCache,
    is_from_cache,
    parse_json,
    with_requested_model,
)
from .progress import StepProgress

TIMEOUT = timedelta(hours=1)
MAX_IMAGES = 10
#: Far more than any endpoint returns.
MAX_IMAGE_BYTES = 64 * 1024 * 1024
INSPECT: LazyCallable[tuple[str, int, int]] = LazyCallable(
    "documents.ocr.images", "inspect_picture", returns=tuple[str, int, int]
)


def _parse_seeds(value: Any) -> Any:
    """Forms have no lists: `1,2` and `[1,2]` stand for one."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [part for part in value.split(",") if part.strip()]
    return parse_json(value)


Seed = Annotated[int, Field(ge=0, lt=2**32)]


class ImageParameters(ModelParameters):
    prompt: str = Field(max_length=32_000, description="What the image shows")
    size: str = Field(
        default="1024x1024",
        pattern=r"^(auto|[1-9][0-9]{1,4}x[1-9][0-9]{1,4})$",
        description="Width and height in pixels, as the model accepts them, or `auto`",
    )
    quality: str | None = Field(
        default=None,
        pattern=r"^[a-z]{1,20}$",
        description="Such as `standard` or `hd`; ignored by models that do not know it",
    )
    n: int | None = Field(
        default=None, ge=1, le=MAX_IMAGES, description="Number of images; default 1"
    )
    seed: Seed | None = Field(
        default=None, description="Makes the images repeatable; each further one adds 1"
    )
    seeds: Annotated[list[Seed] | None, BeforeValidator(_parse_seeds)] = Field(
        default=None, max_length=MAX_IMAGES, description="One seed for each image"
    )

    @field_validator("prompt")
    @classmethod
    def _has_text(cls, prompt: str) -> str:
        if not prompt.strip():
            raise ValueError("it is empty")
        return prompt

    @field_validator("seeds")
    @classmethod
    def _one_for_each(cls, seeds: list[int] | None, info: ValidationInfo) -> list[int] | None:
        if seeds and info.data.get("seed") is not None:
            raise ValueError("send either this or seed, not both")
        number = info.data.get("n")
        if seeds and number is not None and len(seeds) != number:
            raise ValueError(f"there must be n = {number} of them")
        return seeds or None

    @property
    def seed_of_each(self) -> list[int | None]:
        """One entry per image; None for a random one."""
        if self.seeds:
            return [*self.seeds]
        count = self.n or 1
        if self.seed is None:
            return [None] * count
        return [(self.seed + number) % 2**32 for number in range(count)]


ImageContext = JobContext[ImageParameters]


class CachedImage(BaseModel):
    """A generated image, verified, as it is cached."""

    base64: str
    image_format: str
    width: int
    height: int
    #: Names of parameters that the model does not accept.
    rejected: list[str]


@handles("text2image", ImageParameters, timeout=TIMEOUT, io_bound=True)
async def text2image(ctx: ImageContext) -> ImageResults:
    await ctx.progress("initializing", 0)
    llm, warnings = with_requested_model(ctx.llm, "image", ctx.parameters)
    ctx = replace(ctx, llm=llm)
    seeds = ctx.parameters.seed_of_each
    generation = await _Generation.open(ctx, images=len(seeds))
    concurrency = llm.options.model("image").provider.max_concurrent
    # One request per image: many models generate only one at a time, and none takes several seeds.
    cached = await map_limited(enumerate(seeds), concurrency, generation.load_or_generate)
    await ctx.progress("postprocessing", 95)
    return await _write_results(ctx, cached, warnings, processed=generation.processed)


@dataclass(slots=True)
class _Generation:
    ctx: ImageContext
    cache: RecordCache
    progress: StepProgress
    #: Whether any image was not in the cache.
    processed: bool = False

    @staticmethod
    async def open(ctx: ImageContext, *, images: int) -> "_Generation":
        parameters, model = ctx.parameters, ctx.llm.options.model("image")
        options = {
            "model": model.name,
            "parameters": dict(model.parameters),
            "endpoint": model.provider.base_url,
            "size": parameters.size,
            "quality": parameters.quality,
        }
        digest = hashlib.sha256(parameters.prompt.encode("utf-8", "replace")).hexdigest()
        cache = await RecordCache.open(ctx, "text", digest, "images", options=options)
        progress = StepProgress(ctx, "generating", 5, 94)
        progress.expect(images)
        return _Generation(ctx, cache, progress)

    async def load_or_generate(self, numbered: tuple[int, int | None]) -> CachedImage:
        number, seed = numbered

        async def generate() -> Any:
            self.processed = True
            return (await self._generate(number, seed)).model_dump()

        # Images without a seed are cached by their number.
        key = number if seed is None else MAX_IMAGES + seed
        image = CachedImage.model_validate(await self.cache.load_or_make(key, generate))
        await self.progress.advance()
        return image

    async def _generate(self, number: int, seed: int | None) -> CachedImage:
        parameters = self.ctx.parameters
        given = {"quality": parameters.quality, "seed": seed}
        optional = {name: value for name, value in given.items() if value is not None}
        image = await self.ctx.llm.image(parameters.prompt, parameters.size, **optional)
        content = await self._content(image, number)
        path = self.ctx.scratch / f"generated-{number}"
        await asyncio.to_thread(path.write_bytes, content)
        image_format, width, height = await self._inspect(path)
        await asyncio.to_thread(path.unlink)
        encoded = await asyncio.to_thread(base64.b64encode, content)
        return CachedImage(
            base64=encoded.decode("ascii"),
            image_format=image_format,
            width=width,
            height=height,
            rejected=sorted(image.rejected & optional.keys()),
        )

    async def _content(self, image: GeneratedImage, number: int) -> bytes:
        if image.base64:
            data = image.base64.partition(";base64,")[2] or image.base64  # some send a data URL
            if len(data) > MAX_IMAGE_BYTES * 4 // 3:
                raise UpstreamRefused("The model generated an image that is too large")
            try:
                return await asyncio.to_thread(base64.b64decode, data)
            except (binascii.Error, ValueError):
                raise UpstreamRefused("The model generated an image that is not base64") from None
        if not image.url:
            raise UpstreamRefused("The model generated neither an image nor a URL")
        target = self.ctx.scratch / f"download-{number}"
        source = await self.ctx.sources.download(image.url, target)
        try:
            if (await asyncio.to_thread(source.path.stat)).st_size > MAX_IMAGE_BYTES:
                raise UpstreamRefused("The model generated an image that is too large")
            return await asyncio.to_thread(source.path.read_bytes)
        finally:
            await asyncio.to_thread(source.path.unlink)

    async def _inspect(self, path: Path) -> tuple[str, int, int]:
        limits = self.ctx.documents
        try:
            return await self.ctx.run(
                INSPECT, str(path), limits.max_pixels, wall_time=limits.page_timeout
            )
        except (UnsupportedFile, FileCorrupt, FileTooLarge) as error:
            text = f"The model did not generate a usable image: {error.message}"
            raise UpstreamRefused(text) from None


async def _write_results(
    ctx: ImageContext, cached: list[CachedImage], warnings: list[JobWarning], *, processed: bool
) -> ImageResults:
    images = []
    for number, (image, seed) in enumerate(
        zip(cached, ctx.parameters.seed_of_each, strict=True), 1
    ):
        name = f"image-{number:02d}.{image.image_format}"
        content = await asyncio.to_thread(base64.b64decode, image.base64)
        await asyncio.to_thread(write_new, ctx.directory / name, content)
        size = f"{image.width}x{image.height}"
        used_seed = None if "seed" in image.rejected else seed
        images.append(
            ImageFile(file=name, image_format=image.image_format, size=size, seed=used_seed)
        )
    for name in sorted({name for image in cached for name in image.rejected}):
        text = f"{name}: the model does not accept this; the images were generated without it"
        warnings = [*warnings, JobWarning(code="PARAMETER_REJECTED", message=text)]
    for warning in warnings:
        await ctx.log(warning.message, "warning")
    prompt = encode_json({"prompt": clean_text(ctx.parameters.prompt)})
    await asyncio.to_thread(write_new, ctx.directory / RESULTS_FILE, prompt)
    first = images[0]
    return ImageResults(
        model=ctx.llm.model("image"),
        image_format=first.image_format,
        size=first.size,
        seed=first.seed,
        images=images,
        assets=[image.file for image in images],
        markdown_file=None,
        archive_filename="images.zip",
        context=None,
        metadata={"model": ctx.llm.model("image"), "image_count": len(images)},
        is_from_cache=is_from_cache(ctx, processed=processed),
        llm_info=ctx.llm.info(),
        warnings=warnings,
        more_in=RESULTS_FILE,
    )
