"""A GPU through CUDA's driver interface, by ctypes: memory, modules, launches. Needs the driver alone, no toolkit."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from repops.backend import NoBackend
from repops.cuda import nvrtc
from repops.cuda.source import templates

Words = npt.NDArray[np.uint32]
Address = int

_ATTACH_GLOBAL = 1
_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _CONCURRENT_MANAGED_ACCESS = 75, 76, 89  # CUdevice_attribute
_CAPTURE_THREAD_LOCAL = 1
_TOGETHER = 12  # kernels compiled in one go
_GRAPHS_SINCE = 12000  # cuDriverGetVersion: from here on a captured sequence is instantiated by one stable call


class CudaError(RuntimeError):
    """A driver call failed; the message has the call, the error's name and its meaning."""


class OutOfMemory(CudaError):
    """The program does not fit into the device's free memory."""


class Memory:
    """Words on the device, freed with this object."""

    def __init__(self, address: Address, words: int) -> None:
        self.address, self.words = address, words


class Module:
    """Compiled kernels by name, unloaded with this object."""

    def __init__(self, functions: Mapping[str, int]) -> None:
        self.functions = functions


class Call:
    """A kernel with its arguments, ready to launch."""

    def __init__(self, function: int, blocks: int, threads: int, addresses: Sequence[Address]) -> None:
        self.function, self.blocks, self.threads = ctypes.c_void_p(function), blocks, threads
        self._values = (ctypes.c_uint64 * max(1, len(addresses)))(*addresses)
        start, size = ctypes.addressof(self._values), ctypes.sizeof(ctypes.c_uint64)
        self.arguments = (ctypes.c_void_p * max(1, len(addresses)))(
            *(start + size * at for at in range(len(addresses)))
        )


class Device(Protocol):
    """The GPU operations that a runner needs; the tests have one that runs the same source on the CPU."""

    def build(self, kernels: Mapping[str, str]) -> Module:
        """kernels: the text of each by name."""
        ...

    def launch(self, calls: Sequence[Call]) -> None:
        """Launch one after another."""
        ...

    def sequence(self, calls: Sequence[Call]) -> Callable[[], None]:
        """A function that launches all of them; call it as often as you like."""
        ...

    def memory(self, words: int) -> Memory:
        """Device memory, not cleared. Raises OutOfMemory."""
        ...

    def shared(self, words: int) -> tuple[Words, Address]:
        """Zeroed memory that host and device share; the host may use it while nothing runs. Raises OutOfMemory."""
        ...

    def to_device(self, address: Address, words: int) -> None:
        """Prefetch shared words to the device before later launches."""
        ...

    def write(self, address: Address, words: Words) -> None: ...

    def read(self, address: Address, words: int) -> Words:
        """Runs after all earlier launches."""
        ...

    def synchronize(self) -> None: ...


@cache
def _library() -> ctypes.CDLL:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise NoBackend(f"no NVIDIA driver here ({name}); install one, or use the CPU kernels") from error


def _call(name: str, *arguments: object) -> None:
    library = _library()
    code = getattr(library, name)(*arguments)
    if code:
        texts = []
        for describe in (library.cuGetErrorName, library.cuGetErrorString):
            text = ctypes.c_char_p()
            describe(code, ctypes.byref(text))
            texts.append((text.value or b"unknown").decode())
        kind = OutOfMemory if texts[0] == "CUDA_ERROR_OUT_OF_MEMORY" else CudaError
        raise kind(f"{name}: {texts[0]} ({texts[1]})")


def _integer(name: str, *arguments: object) -> int:
    value = ctypes.c_int()
    _call(name, ctypes.byref(value), *arguments)
    return value.value


def facts(ordinal: int) -> dict[str, str]:
    """Everything but our source that a GPU's bits may depend on: card, driver, compiler. Uses no device memory. Raises NoBackend."""
    _initialise()
    device, version = _integer("cuDeviceGet", ordinal), _integer("cuDriverGetVersion")
    identity = (ctypes.c_ubyte * 16)()
    _call("cuDeviceGetUuid_v2", ctypes.byref(identity), device)
    return {
        "name": _name(device),
        "uuid": bytes(identity).hex(),
        "driver": _driver_version() or f"of CUDA {version // 1000}.{version % 1000 // 10}",
        "cuda": f"{version // 1000}.{version % 1000 // 10}",
        "nvrtc": ".".join(map(str, nvrtc.compiler(version // 1000).version)),
    }


def _initialise() -> None:
    try:
        _call("cuInit", 0)
    except CudaError as error:
        raise NoBackend(f"the NVIDIA driver finds no usable GPU: {error}") from error


def name_of(ordinal: int) -> str:
    """Such as NVIDIA H100 80GB HBM3. Raises NoBackend."""
    _initialise()
    return _name(_integer("cuDeviceGet", ordinal))


def _name(device: int) -> str:
    text = ctypes.create_string_buffer(128)
    _call("cuDeviceGetName", text, len(text), device)
    return text.value.decode()


def _driver_version() -> str:
    """Such as 550.54.15; empty where the driver's management library is absent."""
    try:
        library = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(80)
        if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(text, len(text)):
            return ""
    except (OSError, AttributeError):
        return ""
    return text.value.decode()


class Gpu:
    """One device, its primary context (shared with torch in the same process), and a stream of ours."""

    def __init__(self, ordinal: int) -> None:
        _initialise()
        self.version = _integer("cuDriverGetVersion")
        self._device = _integer("cuDeviceGet", ordinal)
        self._context, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        self._enter()
        _call("cuStreamCreate", ctypes.byref(self._stream), 0)
        self._compiler = nvrtc.compiler(self.version // 1000)
        self.target = self._compiler.target(
            10 * self._attribute(_CAPABILITY_MAJOR) + self._attribute(_CAPABILITY_MINOR)
        )
        self._can_prefetch = bool(self._attribute(_CONCURRENT_MANAGED_ACCESS))

    @property
    def name(self) -> str:
        return _name(self._device)

    def _attribute(self, which: int) -> int:
        return _integer("cuDeviceGetAttribute", which, self._device)

    def _enter(self) -> None:
        """Make our context current: a thread has none at first, and later may have another library's."""
        _call("cuCtxSetCurrent", self._context)

    def build(self, kernels: Mapping[str, str]) -> Module:
        """Put a few kernels in each source, so that compilers run in parallel and a cached one serves many programs."""
        names = list(kernels)
        groups = [names[at : at + _TOGETHER] for at in range(0, len(names), _TOGETHER)]
        sources = ["\n".join([templates(), *(kernels[name] for name in group)]) for group in groups]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            images = list(pool.map(lambda source: nvrtc.compiled(self._compiler, source, self.target), sources))
        self._enter()
        made = Module(functions := {})
        for group, image in zip(groups, images, strict=True):
            module = ctypes.c_void_p()
            _call("cuModuleLoadData", ctypes.byref(module), image)
            self._release_with(made, "cuModuleUnload", module)
            for name in group:
                function = ctypes.c_void_p()
                _call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
                functions[name] = function.value or 0
        return made

    def launch(self, calls: Sequence[Call]) -> None:
        self._enter()
        for call in calls:
            sizes = (call.blocks, 1, 1, call.threads, 1, 1, 0)
            _call("cuLaunchKernel", call.function, *sizes, self._stream, call.arguments, None)

    def sequence(self, calls: Sequence[Call]) -> Callable[[], None]:
        """Captured once and replayed, so that a launch costs the device's time rather than Python's."""
        if not calls or self.version < _GRAPHS_SINCE:
            return lambda: self.launch(calls)
        self._enter()
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuStreamBeginCapture_v2", self._stream, _CAPTURE_THREAD_LOCAL)
        try:
            self.launch(calls)
        finally:
            _call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        _call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
        _call("cuGraphDestroy", graph)

        def replay() -> None:
            self._enter()
            _call("cuGraphLaunch", ready, self._stream)

        self._release_with(replay, "cuGraphExecDestroy", ready)
        return replay

    def memory(self, words: int) -> Memory:
        self._enter()
        address = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * max(1, words)))
        made = Memory(address.value, words)
        self._release_with(made, "cuMemFree_v2", address)
        return made

    def shared(self, words: int) -> tuple[Words, Address]:
        """Managed memory. Arrays over it keep it alive.

        Cost: a page that the host touches moves to the host, and back before the next step; other pages stay on the
        device. Requests beyond the free memory are refused, since a driver may page them back and forth forever.
        """
        self._enter()
        free, total, address = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
        _call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        if 4 * words > free.value:
            raise OutOfMemory(f"a state of {4 * words:,} bytes; the device has {free.value:,} free")
        _call("cuMemAllocManaged", ctypes.byref(address), ctypes.c_size_t(4 * max(1, words)), _ATTACH_GLOBAL)
        raw = (ctypes.c_uint32 * max(1, words)).from_address(address.value)
        self._release_with(raw, "cuMemFree_v2", address)
        array = np.frombuffer(memoryview(raw), np.uint32, words)
        array[...] = 0
        return array, address.value

    def _release_with(self, owner: object, name: str, handle: ctypes.c_void_p | ctypes.c_uint64) -> None:
        """Free the memory, except at process exit: the driver frees everything then, and may be gone already."""

        def release() -> None:
            self._enter()
            _call(name, handle)

        weakref.finalize(owner, release).atexit = False

    def to_device(self, address: Address, words: int) -> None:
        if self._can_prefetch and words:
            self._enter()
            _call(
                "cuMemPrefetchAsync", ctypes.c_uint64(address), ctypes.c_size_t(4 * words), self._device, self._stream
            )

    def write(self, address: Address, words: Words) -> None:
        self._enter()
        if words.size:
            _call(
                "cuMemcpyHtoD_v2",
                ctypes.c_uint64(address),
                ctypes.c_void_p(words.ctypes.data),
                ctypes.c_size_t(words.nbytes),
            )

    def read(self, address: Address, words: int) -> Words:
        self.synchronize()
        out = np.empty(words, np.uint32)
        if words:
            _call(
                "cuMemcpyDtoH_v2",
                ctypes.c_void_p(out.ctypes.data),
                ctypes.c_uint64(address),
                ctypes.c_size_t(out.nbytes),
            )
        return out

    def synchronize(self) -> None:
        self._enter()
        _call("cuStreamSynchronize", self._stream)


@cache
def gpu(ordinal: int = 0) -> Gpu:
    """The device, as the driver numbers them (CUDA_VISIBLE_DEVICES is heeded). Raises NoBackend."""
    return Gpu(ordinal)
