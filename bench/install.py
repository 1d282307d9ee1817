"""The peers' own environment and the programs that are needed, installed on first use."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from adapter import PEERS

REQUIREMENTS = PEERS / "requirements.txt"
LIMIT_S = 600


def peers_python(directory: Path) -> Path:
    return environment(directory, REQUIREMENTS.read_text().split())


def environment(directory: Path, wanted: Sequence[str]) -> Path:
    """The Python of an environment with these; made again when the requirements changed."""
    python, installed = directory / "bin" / "python", directory / "requirements.installed"
    listed = "\n".join(wanted)
    if installed.exists() and installed.read_text() == listed:
        return python
    print(f"installing {' '.join(wanted)} …", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", *wanted]
    subprocess.run(pip, check=True, timeout=LIMIT_S)
    installed.write_text(listed)
    return python


def has(program: str, package: str | None = None) -> bool:
    """Whether there is such a program, after an attempt to install it where that is possible: on
    Debian, where the package has the program's name if no other is given."""
    if shutil.which(program):
        return True
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    package = package or program
    print(f"installing {package} …", file=sys.stderr)
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", package]):
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    return shutil.which(program) is not None
