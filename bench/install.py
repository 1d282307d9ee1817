"""The peers' own environment and the programs that are needed, installed on first use."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from adapter import PEERS

REQUIREMENTS = PEERS / "requirements.txt"
LIMIT_S = 600


def peers_python(directory: Path) -> Path:
    """The Python of the peers' environment; installs again when the requirements changed."""
    python, installed = directory / "bin" / "python", directory / "requirements.installed"
    wanted = REQUIREMENTS.read_text()
    if installed.exists() and installed.read_text() == wanted:
        return python
    print(f"installing {' '.join(wanted.split())} …", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS)]
    subprocess.run(pip, check=True, timeout=LIMIT_S)
    installed.write_text(wanted)
    return python


def has(program: str) -> bool:
    """Whether there is such a program, after an attempt to install it where that is possible: on
    Debian, where the package of each that we need has its name."""
    if shutil.which(program):
        return True
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    print(f"installing {program} …", file=sys.stderr)
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", program]):
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    return shutil.which(program) is not None
