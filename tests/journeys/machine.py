"""A machine that has never seen Zoo Compute: an empty home, an empty folder, a virtual environment, the built wheels."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from tests.journeys.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
PASSPHRASE = "correct horse battery staple"
# What a person types where a command asks: a passphrase, yes, or Enter for what is offered.
ANSWERS = {
    r"(?i)(passphrase|confirmation)[^\n]*: ": PASSPHRASE,
    r"\[[yY]/[nN]\]:? ": "y",
    r"price per slot-round[^\n]*\]: ": "0.3",  # below what a devnet's nodes ask
    r"\[[^\]\n]*\]: \Z": "",
}
# Of the surrounding environment, what a newcomer's shell has too. Anything of the project's own would hide a missing step.
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CI")


def build_wheels(folder: Path) -> list[Path]:
    """The wheels of zoo-compute and zoo-gym, from this checkout."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in (ROOT, ROOT / "packages" / "zoo-gym"):
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(folder),
            str(source),
        ]
        subprocess.run(command, check=True, cwd=folder)
    return sorted(folder.glob("*.whl"))


@cache
def registries() -> dict[str, str]:
    """Where this machine's pip and npm find packages: a fresh home would forget it, and their caches too."""
    home = Path.home()
    files = {"PIP_CONFIG_FILE": home / ".config" / "pip" / "pip.conf", "NPM_CONFIG_USERCONFIG": home / ".npmrc"}
    asked = [sys.executable, "-m", "pip", "cache", "dir"]
    pip_cache = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return {
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "NPM_CONFIG_"))},
        **{name: str(path) for name, path in files.items() if path.exists()},
        "PIP_CACHE_DIR": pip_cache,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # As `--no-compile`: Python compiles what is imported, and not the thousands of modules of torch that nobody imports.
        "PIP_COMPILE": "0",
    }


@dataclass
class Machine:
    """home and work start empty; `python` and `pip` are those of an empty virtual environment."""

    folder: Path
    wheels: list[Path]
    transcript: IO[str]
    terminals: list[Terminal] = field(default_factory=list)

    def __post_init__(self) -> None:
        for each in (self.home, self.work):
            each.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", str(self.venv)], check=True)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        checkout = str(ROOT)
        outside = [each for each in kept["PATH"].split(os.pathsep) if not each.startswith(checkout)]
        return {
            **kept,
            **registries(),
            "PIP_FIND_LINKS": " ".join([*registries().get("PIP_FIND_LINKS", "").split(), str(self.wheels[0].parent)]),
            "HOME": str(self.home),
            "VIRTUAL_ENV": str(self.venv),
            "PATH": os.pathsep.join([str(self.venv / "bin"), *outside]),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2"),
        }

    def terminal(self) -> Terminal:
        """Another terminal of the same person, in the same folder."""
        opened = Terminal(self.work, self.environment, ANSWERS, self.transcript)
        self.terminals.append(opened)
        return opened

    def processes(self) -> list[str]:
        """Command lines of the processes that run from this machine's folder."""
        commands = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word.startswith(str(self.folder)) for word in words):
                commands.append(" ".join(words)[:200])
        return commands
