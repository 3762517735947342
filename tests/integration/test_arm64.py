"""The kernels for 64-bit ARM, cross-compiled, and run under emulation against the definition. `make test-deploy`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = Path(os.environ.get("ZOO_TEST_ARM64", "/var/lib/machines/zoo-arm64"))  # stays, as it takes minutes to make
COMPILER = "aarch64-linux-gnu-g++"
PROGRAMS = ("debootstrap", "chroot", "qemu-aarch64-static", COMPILER)
EMULATED = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
HERE = "root/zoo"


def missing() -> str:
    """Why ARM's programs cannot run here; empty if they can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian's debootstrap, qemu-user-static, g++-aarch64-linux-gnu)"
    if os.geteuid() != 0:
        return "only root can make a machine"
    return "" if EMULATED.exists() else "the system does not emulate ARM: `update-binfmts --enable qemu-aarch64`"


MISSING = missing()
pytestmark = [pytest.mark.integration, pytest.mark.deploy, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture(scope="module")
def machine() -> Path:
    """A Debian for ARM with Python and numpy, and repops with kernels that were compiled here."""
    if not (ROOT / "usr/bin/python3").exists():
        wanted = ["--arch=arm64", "--variant=minbase", "--include=python3-minimal,python3-numpy"]
        subprocess.run(["debootstrap", *wanted, "bookworm", ROOT], check=True)
    here = ROOT / HERE
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(REPOSITORY / "repops", here / "repops", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    crossing = {**os.environ, "CXX": COMPILER, "_PYTHON_HOST_PLATFORM": "linux-aarch64"}
    build = [sys.executable, "-m", "repops.native.build", "--directory", here / "repops" / "native"]
    subprocess.run(build, cwd=REPOSITORY, env=crossing, check=True)
    return ROOT


@pytest.mark.parametrize("isa", ["neon", "portable"])
def test_kernels_for_arm__have_the_bits_of_the_definition(machine: Path, isa: str) -> None:
    check = f"cd /{HERE} && REPOPS_ISA={isa} PYTHONDONTWRITEBYTECODE=1 python3 -m repops.conformance --device cpu"
    done = subprocess.run(["chroot", machine, "sh", "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["differing"] == []
    assert answer["cases"] > 100
