"""The wheels of zoo-compute and zoo-gym, built from what git knows and installed into an empty environment."""

from __future__ import annotations

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


def run(*command: str | Path, cwd: Path, fails: bool = False) -> str:
    """What it printed, both streams. PYTHONPATH would put this checkout before what is installed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    tree = tmp_path_factory.mktemp("tree")
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    # A library whose stamp is that of its sources is left as it is; the build compiles the portable one itself.
    for library in (ROOT / "repops" / "native").glob("librepops_*"):
        if "portable" not in library.name:
            shutil.copy(library, tree / "repops" / "native")
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
