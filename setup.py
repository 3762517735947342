"""Compiles the native kernels while the package is built; everything else is in pyproject.toml."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def native_build() -> ModuleType:
    """`repops/native/build.py` by path: the build environment is isolated and has nothing of ours installed."""
    spec = importlib.util.spec_from_file_location("repops_native_build", ROOT / "repops" / "native" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildPython(build_py):
    """Libraries go beside the sources: an editable install finds them there, a wheel copies them as package data."""

    def run(self) -> None:
        builder = native_build()
        try:
            for path in builder.build():
                print(f"native kernels: {path}")
        except (builder.NoCompiler, builder.CompileError, OSError) as error:
            print(
                f"native kernels: not built ({error}). repops falls back to a slower backend; "
                "with a C++ compiler, run `python -m repops.native.build`.",
                file=sys.stderr,
            )
        super().run()


class WithLibraries(Distribution):
    """A wheel that carries shared libraries is not pure Python."""

    def has_ext_modules(self) -> bool:
        return True


class TaggedWheel(bdist_wheel):
    """For every Python 3: the libraries are opened by ctypes and know none. For this platform, or for any where none was built."""

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        libraries = Path(self.bdist_dir).rglob("librepops_*") if self.bdist_dir else ()
        return "py3", "none", platform if any(libraries) else "any"


if __name__ == "__main__":
    setup(distclass=WithLibraries, cmdclass={"build_py": BuildPython, "bdist_wheel": TaggedWheel})
