"""Compiles CUDA C++ at run time by NVRTC, through ctypes, and caches the result on disk.

The cache folder is $REPOPS_CACHE, else `repops` in the user's cache folder. A damaged file is compiled again.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import hashlib
import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from repops.backend import NoBackend

# The kernels name every rounding themselves; these say the same again.
OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
HINT = "install NVIDIA's CUDA toolkit, or `pip install nvidia-cuda-nvrtc` of the driver's major version"
_MAJORS = (13, 12, 11)
_DIGEST = 32


class CompileError(RuntimeError):
    """NVRTC refused generated source; the message is its log. A bug in repops, or NVRTC is too old."""


class Compiler:
    """One libnvrtc. version: (major, minor)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def architectures(self) -> list[int]:
        """Compute capabilities it knows, as 10 * major + minor, ascending."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        targets = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", targets)
        return sorted(targets)

    def target(self, capability: int) -> str:
        """Machine code for the device if NVRTC supports it; else PTX of the newest architecture, for the driver to compile."""
        known = self.architectures()
        if capability in known:
            return f"sm_{capability}"
        older = [each for each in known if each <= capability]
        if not older:
            raise NoBackend(f"NVRTC {self.version[0]}.{self.version[1]} compiles for no GPU as old as sm_{capability}")
        return f"compute_{older[-1]}"

    def compile(self, source: str, target: str) -> bytes:
        """A cubin (target sm_..) or PTX (compute_..). Raises CompileError."""
        program, options = ctypes.c_void_p(), [f"--gpu-architecture={target}", *OPTIONS]
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"repops.cu", 0, None, None)
        try:
            encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            if self._library.nvrtcCompileProgram(program, len(options), encoded):
                raise CompileError(self._read("nvrtcGetProgramLog", program).rstrip(b"\0").decode(errors="replace"))
            return self._read("nvrtcGetCUBIN" if target.startswith("sm_") else "nvrtcGetPTX", program)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, name: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{name}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(name, program, text)
        return text.raw

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CompileError(f"{name} failed with NVRTC error {code}")


def _candidates() -> Iterator[str]:
    """Where a libnvrtc may be: on the loader's path, in the toolkit, in pip's packages, beside torch."""
    windows = sys.platform == "win32"
    names = [f"nvrtc64_{major}0_0.dll" if windows else f"libnvrtc.so.{major}" for major in _MAJORS]
    yield from names
    yield from filter(None, [ctypes.util.find_library("nvrtc")])
    pattern = "nvrtc64_*.dll" if windows else "libnvrtc.so.*"
    homes = [os.environ[each] for each in ("CUDA_HOME", "CUDA_PATH") if each in os.environ]
    folders = [Path(home) / part for home in [*homes, "/usr/local/cuda"] for part in ("lib64", "bin")]
    for packages in {sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("-packages"))}:
        folders += [*Path(packages).glob("nvidia/*/lib"), *Path(packages).glob("nvidia/*/bin")]
        folders.append(Path(packages) / "torch" / "lib")
    for folder in folders:
        yield from (str(path) for path in sorted(folder.glob(pattern), reverse=True) if "builtins" not in path.name)


@cache
def compiler(driver_major: int) -> Compiler:
    """The first NVRTC found whose output a driver of this major version loads. Raises NoBackend."""
    newer = []
    for name in _candidates():
        try:
            candidate = Compiler(ctypes.CDLL(name))
        except (OSError, AttributeError, CompileError):
            continue
        if candidate.version[0] <= driver_major:
            return candidate
        newer.append(candidate.version[0])
    if newer:
        raise NoBackend(f"NVRTC {newer[0]} is newer than the driver, which is of CUDA {driver_major}; {HINT}")
    raise NoBackend(f"NVRTC, which compiles the CUDA kernels, is not on this machine; {HINT}")


def cache_folder() -> Path:
    if "REPOPS_CACHE" in os.environ:
        return Path(os.environ["REPOPS_CACHE"])
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "repops"


def compiled(tool: Compiler, source: str, target: str) -> bytes:
    """From the cache, else compiled and cached. If the cache is not writable, that only costs time."""
    key = hashlib.sha256("\0".join([str(tool.version), target, *OPTIONS, source]).encode()).hexdigest()
    path = cache_folder() / f"{key}.{target}"
    with contextlib.suppress(OSError):
        kept = path.read_bytes()
        if hashlib.sha256(kept[_DIGEST:]).digest() == kept[:_DIGEST]:
            return kept[_DIGEST:]
    image = tool.compile(source, target)
    with contextlib.suppress(OSError):
        _write(path, hashlib.sha256(image).digest() + image)
    return image


def _write(path: Path, data: bytes) -> None:
    """Write atomically: other processes may read and write the same file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
