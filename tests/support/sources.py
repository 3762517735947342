"""The ABI and bytecode of a contract, without compiling what is compiled already.

A committed artifact is used where its hash is the sources' own. Everything else (mocks, a contract under work) is
compiled once and kept in `.build/contracts`, by the same hash: of a source and, recursively, of all that it imports.
"""

from __future__ import annotations

import json
import os
import re
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eth_utils.crypto import keccak

from zoo_compute.chain import artifacts

if TYPE_CHECKING:
    from vyper.compiler.settings import OptimizationLevel

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / "contracts"
ARTIFACTS = Path(artifacts.__file__).parent / "generated" / "artifacts"
KEPT = ROOT / ".build" / "contracts"
LIBRARIES = Path(sysconfig.get_paths()["purelib"])
BUILTIN = LIBRARIES / "vyper" / "builtins" / "interfaces"
IMPORT = re.compile(r"^(?:from (\.*)([\w.]*) )?import (\.*)([\w.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Compiled:
    """What a deployment takes."""

    name: str
    abi: list[dict[str, Any]]
    bytecode: bytes


def load(name: str) -> Compiled:
    """A contract of `contracts/`, or a mock (`mocks/FalseToken`)."""
    return of_path(CONTRACTS / f"{name}.vy")


@cache
def of_path(path: Path) -> Compiled:
    fingerprint, artifact = integrity(path), ARTIFACTS / f"{path.stem}.json"
    if path.parent == CONTRACTS and artifact.exists():
        content = json.loads(artifact.read_text())
        if content["source_sha256"] == fingerprint:
            return _read(content)
    return _kept(path.stem, fingerprint, lambda: compiler_data(path))


@cache
def of_text(name: str, text: str) -> Compiled:
    """A source in a test."""
    from vyper.compiler.phases import CompilerData

    return _kept(name, sha256(text.encode()).hexdigest(), lambda: CompilerData(text))


def compiler_data(path: Path, level: OptimizationLevel | None = None) -> Any:
    """The compiler's own view of a source, which takes seconds. level: instead of what its pragma says."""
    from vyper.compiler.input_bundle import FilesystemInputBundle
    from vyper.compiler.phases import CompilerData
    from vyper.compiler.settings import Settings

    bundle = FilesystemInputBundle([LIBRARIES, path.parent])
    file = bundle.load_file(path)
    if level is None:
        return CompilerData(file, bundle)
    text = file.source_code.replace("# pragma optimize codesize\n", "\n")
    return CompilerData(replace(file, contents=text), bundle, Settings(optimize=level))


def compiled(name: str, data: Any) -> Compiled:
    from vyper.compiler.output import build_abi_output

    return Compiled(name, build_abi_output(data), data.bytecode)


def storage_slot(name: str, variable: str, *keys: int) -> int:
    """Where a contract keeps a variable (`erc20.is_minter`), or what a mapping has of these keys."""
    layout = compiler_data(CONTRACTS / f"{name}.vy").storage_layout["storage_layout"]
    for part in variable.split("."):
        layout = layout[part]
    slot = int(layout["slot"])
    for key in keys:
        slot = int.from_bytes(keccak(slot.to_bytes(32, "big") + key.to_bytes(32, "big")), "big")
    return slot


def integrity(path: Path) -> str:
    """As the compiler computes `integrity_sum`, which artifacts carry."""
    text = path.read_text()
    sums = [sha256(text.encode()).hexdigest()]
    for module, source in ((each, _resolved(path, each)) for each in IMPORT.finditer(text)):
        assert source, f"{path}: {module[0]} is not found"
        is_interface = source.suffix == ".vyi"
        sums.append(sha256(source.read_bytes()).hexdigest() if is_interface else integrity(source))
    return sha256("".join(sums).encode()).hexdigest()


def _resolved(path: Path, line: re.Match[str]) -> Path | None:
    """The file of an import."""
    dots, package, _, name = line.groups()
    parts = [*filter(None, (package or "").split(".")), *name.split(".")]
    if parts[:2] == ["ethereum", "ercs"]:
        folders = [BUILTIN]
        parts = parts[2:]
    elif dots:
        folders = [path.parents[len(dots) - 1]]
    else:
        folders = [path.parent, LIBRARIES]
    candidates = [folder.joinpath(*parts).with_suffix(end) for folder in folders for end in (".vy", ".vyi")]
    return next((each for each in candidates if each.exists()), None)


def _kept(name: str, fingerprint: str, compile_: Callable[[], Any]) -> Compiled:
    from vyper import __version__

    path = KEPT / f"{name}-{__version__}-{fingerprint}.json"
    if not path.exists():
        fresh = compiled(name, compile_())
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({"name": name, "abi": fresh.abi, "bytecode": "0x" + fresh.bytecode.hex()}))
        partial.rename(path)
    return _read(json.loads(path.read_text()))


def _read(content: dict[str, Any]) -> Compiled:
    return Compiled(content["name"], content["abi"], bytes.fromhex(content["bytecode"][2:]))
