"""Poppler's pdftotext, in its default reading order."""

import subprocess

VERSION = (
    subprocess.run(["pdftotext", "-v"], capture_output=True, text=True, check=True)
    .stderr.split("\n")[0]
    .split()[-1]
)


def read(path: str) -> str:
    command = ["pdftotext", "-enc", "UTF-8", path, "-"]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode(
        "utf-8", "replace"
    )
