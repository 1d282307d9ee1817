"""kreuzberg, asked for Markdown, without its cache."""

import kreuzberg  # type: ignore[import-not-found]  # only in its own environment

VERSION = kreuzberg.__version__
CONFIG = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False)


def read(path: str) -> str:
    return str(kreuzberg.extract_file_sync(path, config=CONFIG).content)
