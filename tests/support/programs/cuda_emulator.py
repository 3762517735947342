"""A `repops.cuda.driver.Device` that runs the generated kernels on the CPU: g++ compiles the source NVRTC would."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from repops.cuda.driver import Call, Memory, Module, Words
from repops.cuda.source import templates

HEADER = Path(__file__).with_name("cuda_emulator.h")
# No contraction: the kernels' own fma are fmaf. A read of four words off a multiple of 16 bytes stops the process: a GPU
# would refuse it too.
FLAGS = (
    "-std=c++17",
    "-O1",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-w",
    "-fno-strict-aliasing",
    "-fsanitize=alignment",
    "-fsanitize-undefined-trap-on-error",
)
GUARD = 16  # words before and behind each allocation that must stay as they are
MARK = 0xDEADBEEF


def compiler() -> str | None:
    return shutil.which("g++")


class Emulator:
    """Counts what it launched; `check_guards` says whether a kernel wrote beside its memory."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._blocks = folder, list[Words]()
        self.sources: list[str] = []
        self._loaded: dict[str, ctypes.CDLL] = {}  # by source
        self._emulate: dict[int, Callable[..., None]] = {}  # by kernel

    def build(self, kernels: Mapping[str, str]) -> Module:
        source = "\n".join([templates(), *kernels.values()])
        self.sources.append(source)
        if source not in self._loaded:
            self._loaded[source] = self._compile(source, kernels)
        library = self._loaded[source]
        module = Module({name: ctypes.cast(library[f"run_{name}"], ctypes.c_void_p).value or 0 for name in kernels})
        self._emulate |= dict.fromkeys(module.functions.values(), library.emulate)
        return module

    def _compile(self, source: str, kernels: Mapping[str, str]) -> ctypes.CDLL:
        entries = []
        for name, text in kernels.items():
            signature = re.search(rf"\) {name}\((.*?)\)", text)
            assert signature is not None
            casts = ", ".join(f"(u32*)a[{at}]" for at in range(len(signature[1].split(","))))
            entries.append(f'extern "C" void run_{name}(void** a) {{ {name}({casts}); }}')
        stem = self._folder / f"{len(self._loaded)}.cpp"
        stem.write_text(f'#include "{HEADER}"\n{source}\n' + "\n".join(entries))
        library = stem.with_suffix(".so")
        subprocess.run([str(compiler()), *FLAGS, str(stem), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))

    def launch(self, calls: Sequence[Call]) -> None:
        for call in calls:
            pointers = (ctypes.cast(at, ctypes.POINTER(ctypes.c_void_p))[0] for at in call.arguments)
            addresses = (ctypes.c_void_p * len(call.arguments))(*pointers)
            emulate = self._emulate[call.function.value or 0]
            emulate(call.function, ctypes.c_uint(call.blocks), ctypes.c_uint(call.threads), addresses)

    def sequence(self, calls: Sequence[Call]) -> Callable[[], None]:
        return lambda: self.launch(calls)

    def _take(self, words: int) -> tuple[Words, int]:
        raw = np.full(words + 2 * GUARD + 64, MARK, np.uint32)
        start = GUARD + (-(raw.ctypes.data // 4 + GUARD)) % 64
        raw = raw[start - GUARD : start + words + GUARD]
        self._blocks.append(raw)
        return raw[GUARD : GUARD + words], raw.ctypes.data + 4 * GUARD

    def memory(self, words: int) -> Memory:
        array, address = self._take(words)
        array[...] = 0x7FA5A5A5  # a NaN: what was never written shows
        return Memory(address, words)

    def shared(self, words: int) -> tuple[Words, int]:
        array, address = self._take(words)
        array[...] = 0
        return array, address

    def to_device(self, address: int, words: int) -> None:
        pass

    def write(self, address: int, words: Words) -> None:
        ctypes.memmove(address, np.ascontiguousarray(words).ctypes.data, words.nbytes)

    def read(self, address: int, words: int) -> Words:
        out = np.empty(words, np.uint32)
        ctypes.memmove(out.ctypes.data, address, out.nbytes)
        return out

    def synchronize(self) -> None:
        pass

    def check_guards(self) -> None:
        for raw in self._blocks:
            assert (raw[:GUARD] == MARK).all(), "a kernel wrote before its memory"
            assert (raw[-GUARD:] == MARK).all(), "a kernel wrote behind its memory"
