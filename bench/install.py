"""The peers' own environment and the Redis they need, installed on first use."""

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


def has_redis() -> bool:
    """Whether there is a redis-server, after an attempt to install it where that is possible."""
    if shutil.which("redis-server"):
        return True
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    print("installing redis-server …", file=sys.stderr)
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "redis-server"]):
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
    return shutil.which("redis-server") is not None
