"""Compile the native kernels: `python -m repops.native.build [--force] [--sanitize]`.

One shared library per instruction set, beside the sources. Imports nothing but the standard library, since `setup.py`
runs it in an isolated environment.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
COMPILE_TIMEOUT_S = 900

# Bits are the product: no contraction into fma, no fast-math, and no tuning to the machine that compiles.
COMMON = (
    *("-O3", "-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared", "-pthread", "-fvisibility=hidden"),
    # gcc 12's own AVX-512 headers trip the uninitialized warnings.
    *("-Wall", "-Wextra", "-Wno-uninitialized", "-Wno-maybe-uninitialized", "-Werror=return-type", "-Werror=format"),
)
SANITIZE = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined")
# An older x86 microcode fix slows loops whose branch touches a 32-byte boundary; assemblers since 2019 can pad them.
PADDED_BRANCHES = "-Wa,-mbranches-within-32B-boundaries"
Flags = dict[str, tuple[str, ...]]
X86: Flags = {
    "avx512": ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mavx512cd", "-mfma"),
    "avx2": ("-mavx2", "-mfma"),
    "portable": ("-DREPOPS_PORTABLE",),
}
ARM: Flags = {"neon": (), "portable": ("-DREPOPS_PORTABLE",)}
OTHER: Flags = {"portable": ("-DREPOPS_PORTABLE",)}


class NoCompiler(RuntimeError):
    """No C++ compiler was found; the native kernels cannot be built here."""


class CompileError(RuntimeError):
    """The compiler refused; its messages are the text."""


def targets() -> Flags:
    """Instruction sets of this architecture with their flags, best first. Python's own name for it, which a cross build sets."""
    machine = sysconfig.get_platform().rpartition("-")[2].lower()
    if machine in ("x86_64", "amd64"):
        return X86
    return ARM if machine in ("aarch64", "arm64") else OTHER


def _accepts(flag: str) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "empty.cpp")
        source.write_text("int main() {}\n")
        command = [compiler(), flag, "-c", str(source), "-o", str(Path(scratch, "empty.o"))]
        return not subprocess.run(command, capture_output=True, timeout=COMPILE_TIMEOUT_S, check=False).returncode


def library(isa: str, directory: Path = HERE) -> Path:
    return directory / f"librepops_{isa}{SUFFIX}"


def compiler() -> str:
    """$CXX, else the first of c++, g++, clang++ on PATH. Raises NoCompiler."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise NoCompiler("no C++ compiler: install g++ or clang++, or set CXX to one")


def _generate() -> None:
    """Write `recipes.inc`, if its generator exists."""
    if not (HERE / "generate.py").exists():
        return
    root = str(HERE.parents[1])  # not on the path of an isolated build
    sys.path.insert(0, root)
    try:
        importlib.import_module("repops.native.generate").write(HERE)
    finally:
        sys.path.remove(root)


def _stamp(command: Sequence[str], sources: Sequence[Path]) -> str:
    digest = hashlib.sha256("\0".join(command).encode())
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _compile(isa: str, flags: Sequence[str], directory: Path, *, sanitize: bool, force: bool) -> Path:
    """Build one library unless it carries the stamp of these sources and flags already."""
    sources = sorted(path for pattern in ("*.cpp", "*.h", "*.inc") for path in HERE.glob(pattern))
    units = [str(path) for path in sources if path.suffix == ".cpp"]
    command = [compiler(), *COMMON, *flags, *(SANITIZE if sanitize else ())]
    output = library(isa, directory)
    stamp = f"repops-stamp:{_stamp(command, sources)}"
    if not force and output.exists() and stamp.encode() in output.read_bytes():
        return output
    # The stamp lies inside the library, so library and stamp are replaced by one rename: two processes may build at once.
    with tempfile.TemporaryDirectory(dir=directory, prefix=".build-") as scratch:
        note = Path(scratch, "stamp.cpp")
        note.write_text(f'extern "C" __attribute__((visibility("default"))) const char repops_stamp[] = "{stamp}";\n')
        result = Path(scratch, output.name)
        run = subprocess.run(
            [*command, *units, str(note), "-o", str(result)],
            capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False,
        )  # fmt: skip
        if run.returncode:
            raise CompileError(f"{isa}: {' '.join(command)} failed:\n{run.stderr.strip()[:4000]}")
        if run.stderr.strip():
            print(run.stderr.strip(), file=sys.stderr)
        os.replace(result, output)
    return output


def build(directory: Path | str | None = None, *, sanitize: bool = False, force: bool = False) -> list[Path]:
    """Compile every *.cpp of this folder for each instruction set into `directory`; the libraries, best set first.

    An unchanged library is left alone. Raises NoCompiler or CompileError.
    """
    compiler()
    where = HERE if directory is None else Path(directory)
    where.mkdir(parents=True, exist_ok=True)
    _generate()
    padded = (PADDED_BRANCHES,) if targets() is X86 and _accepts(PADDED_BRANCHES) else ()
    with ThreadPoolExecutor(max_workers=max(1, min(3, (os.cpu_count() or 1) // 2))) as pool:
        jobs = [
            pool.submit(_compile, isa, (*flags, *padded), where, sanitize=sanitize, force=force)
            for isa, flags in targets().items()
        ]
        return [job.result() for job in jobs]


def main() -> None:
    parser = argparse.ArgumentParser(description="compile the native kernels of repops")
    parser.add_argument("--force", action="store_true", help="rebuild what is up to date")
    parser.add_argument("--sanitize", action="store_true", help="with the address and undefined-behaviour sanitizers")
    parser.add_argument("--quiet", action="store_true", help="do not list the libraries")
    parser.add_argument("--directory", type=Path, help="where the libraries go (default: beside the sources)")
    args = parser.parse_args()
    try:
        for path in build(args.directory, sanitize=args.sanitize, force=args.force):
            if not args.quiet:
                print(path)
    except (NoCompiler, CompileError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
