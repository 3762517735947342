"""The wheels of zoo-compute and zoo-gym, built from what git knows and installed into an empty environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]


JOB = {
    "model": {"layers": 1, "heads": 2, "width": 16, "context": 16},
    "training": {"learning_rate": 0.01, "batch_size": 4, "inner_steps": 4, "rounds": 2, "slots": 3},
    "market": {"reserve": 1, "max_price": 2, "aggregator_max_price": 1},
}
# Which kernels a program would run on, and where they lie.
KERNELS = "import repops.backend as b; b.backend(); print(b.current(), b.__file__)"


def run(*command: str | Path, cwd: Path, fails: bool = False, environment: dict[str, str] | None = None) -> str:
    """What it printed, both streams. PYTHONPATH would put this checkout before what is installed."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | (environment or {})
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=variables, capture_output=True, text=True)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, with the libraries that are up to date."""
    tree = tmp_path_factory.mktemp("tree")
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    # A library whose stamp is that of its sources is left as it is; the build compiles the portable one itself.
    for library in (ROOT / "repops" / "native").glob("librepops_*"):
        if "portable" not in library.name:
            shutil.copy(library, tree / "repops" / "native")
    return tree


@pytest.fixture(scope="module")
def wheels(tree: Path) -> list[Path]:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "dist", ".", "packages/zoo-gym", cwd=tree)
    return sorted((tree / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def place(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with both; their requirements are borrowed from the one of the tests, so that nothing is fetched."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", *wheels, cwd=place)
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place


def test_the_wheel__is_of_every_python_3_and_brings_its_kernels(wheels: list[Path], place: Path) -> None:
    """No compiler, and none of this repository: the libraries in the wheel run."""
    assert "-py3-none-linux_" in wheels[0].name or sys.platform != "linux"
    libraries = [name for name in zipfile.ZipFile(wheels[0]).namelist() if "/librepops_" in name]
    assert len(libraries) >= 2
    said = run(place / "bin" / "python", "-c", KERNELS, cwd=place, environment={"PATH": "", "CXX": ""})
    assert said.startswith("native ")
    assert f"{place}/" in said
    assert "times the time" not in said


def test_commands__run_from_the_wheel_alone(place: Path) -> None:
    (place / "job.json").write_text(json.dumps(JOB))
    quote = run(place / "bin" / "zoo", "quote", "job.json", cwd=place, environment={"PATH": "", "CXX": ""})
    assert "rounds" in quote
    for words in (["node", "deposit"], ["train"], ["devnet"], ["verify"], ["dashboard"]):
        assert "Usage:" in run(place / "bin" / "zoo", *words, "--help", cwd=place, environment={"PATH": ""})


def test_a_wheel_that_is_built_without_a_compiler__is_for_any_platform__and_numba_says_that_it_computes(
    tree: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "tree"
    shutil.copytree(tree, bare, ignore=shutil.ignore_patterns("librepops_*", "dist", "build"))
    none = {"PATH": "", "CXX": ""}
    pip = ("-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "dist", ".")
    run(sys.executable, *pip, cwd=bare, environment=none)
    [wheel] = (bare / "dist").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    said = run(sys.executable, "-c", KERNELS, cwd=tmp_path / "installed", environment=none)
    assert "numba computes here: the same bits, in about 5 times the time" in said
    assert "Install a C++ compiler" in said
    assert f"numba {tmp_path}" in said


def test_the_wheels__hold_their_licences_and_own_different_files(wheels: list[Path]) -> None:
    assert [wheel.name.partition("-")[0] for wheel in wheels] == ["zoo_compute", "zoo_gym"]
    names = [set(zipfile.ZipFile(wheel).namelist()) for wheel in wheels]
    for each in names:
        assert any(name.endswith("licenses/LICENSE") for name in each)
    assert not names[0] & names[1]
    assert not any(name.startswith(("gym/", "tests/")) for name in names[0])
    assert {name for name in names[1] if ".dist-info/" not in name} == {"gym/__init__.py", "gym/py.typed"}


def test_an_installation__has_both_commands_and_the_trainer(place: Path) -> None:
    python = place / "bin" / "python"
    output = run(python, "-c", "from gym import DistributedTrainer as T; import gym; print(T, gym.__file__)", cwd=place)
    assert "zoo_compute.client.trainer.DistributedTrainer" in output
    assert str(place) in output
    assert "not OpenAI Gym" in run(python, "-c", "import gym; gym.make('CartPole-v1')", cwd=place, fails=True)
    for command in ("zoo", "gym"):
        assert "zoo, version 0.1.0" in run(place / "bin" / command, "--version", cwd=place)
        for words in (["register"], ["start"], ["node", "register"], ["node", "start"]):
            assert "Usage:" in run(place / "bin" / command, *words, "--help", cwd=place)


def test_beside_openai_gym__the_module_says_what_to_do(place: Path) -> None:
    python = place / "bin" / "python"
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    other = own / "gym-0.26.2.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: gym\nVersion: 0.26.2\n")
    try:
        output = run(python, "-c", "from gym import DistributedTrainer", cwd=place, fails=True)
    finally:
        shutil.rmtree(other)
    assert "pip uninstall gym zoo-gym" in output
