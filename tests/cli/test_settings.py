"""Which network, account, passphrase and store a command uses: option, environment, files, and last the devnet that runs."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zoo_compute import paths
from zoo_compute.devnet_files import DevnetFiles
from zoo_compute.errors import ConfigError


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is set: an empty home, an empty folder, no exports."""
    for name in ("ZOO_NETWORK", "ZOO_ACCOUNT", "ZOO_STORE", "ZOO_PASSPHRASE_FILE", "ZOO_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def write(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def a_devnet(folder: Path) -> DevnetFiles:
    """What a devnet leaves behind, without a chain."""
    files = DevnetFiles(folder)
    write(files.lock, "")
    write(files.network_file, json.dumps({"chain_id": 31337}))
    write(files.passphrase_file, "secret")
    for name in ("deployer", "me", "alice"):
        write(files.key_file(name))
    return files


@contextmanager
def running(files: DevnetFiles, *, ready: bool = True) -> Iterator[DevnetFiles]:
    with files.lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready:
            files.mark_ready("me")
        yield files


@pytest.fixture(name="devnet")
def devnet_fixture(empty: None) -> Iterator[DevnetFiles]:
    with running(a_devnet(paths.home() / "devnet")) as files:
        yield files


def test_a_running_devnet__is_found_with_account_passphrase_and_store(devnet: DevnetFiles):
    network = paths.find_network_file()
    assert network == devnet.network_file
    account = paths.find_keystore(None, network)
    assert account == devnet.key_file("me")
    assert paths.passphrase_file(account) == devnet.passphrase_file
    assert paths.store_location(None, network) == str(devnet.store)


def test_every_other_network_file__goes_before_the_devnets(
    devnet: DevnetFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    in_home = write(paths.home() / "network.json")
    assert paths.find_network_file() == in_home
    write(Path("network.json"))
    assert paths.find_network_file() == Path("network.json")
    exported = write(tmp_path / "exported.json")
    monkeypatch.setenv("ZOO_NETWORK", str(exported))
    assert paths.find_network_file() == exported
    named = write(tmp_path / "given.json")
    assert paths.find_network_file(named) == named


@pytest.mark.parametrize("elsewhere", ["home", "option"])
def test_on_another_network__nothing_of_the_devnet_is_used(devnet: DevnetFiles, tmp_path: Path, elsewhere: str):
    other = write(paths.home() / "network.json") if elsewhere == "home" else write(tmp_path / "given.json")
    network = paths.find_network_file(None if elsewhere == "home" else other)
    with pytest.raises(ConfigError, match="no account"):
        paths.find_keystore(None, network)
    with pytest.raises(ConfigError, match="no account 'alice'"):
        paths.find_keystore("alice", network)
    assert paths.store_location(None, network) == str(paths.home() / "store")
    assert paths.passphrase_file(write(paths.keystores() / "mine.json")) is None


def test_a_devnets_key__named_for_another_network__is_refused(
    devnet: DevnetFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = write(tmp_path / "main.json", json.dumps({"chain_id": 1}))
    key = str(devnet.key_file("deployer"))
    with pytest.raises(ConfigError, match=r"is a key of a devnet, chain 31337, and .*main.json is of chain 1"):
        paths.find_keystore(key, other)
    monkeypatch.setenv("ZOO_ACCOUNT", key)
    with pytest.raises(ConfigError, match="is a key of a devnet"):
        paths.find_keystore(None, other)
    assert paths.find_keystore(None, devnet.network_file) == Path(key)


def test_an_account_that_is_chosen__goes_before_the_devnets(devnet: DevnetFiles, monkeypatch: pytest.MonkeyPatch):
    mine = write(paths.keystores() / "mine.json")
    assert paths.find_keystore(None, devnet.network_file) == devnet.key_file("me"), (
        "the only one of the home has no ZEN"
    )
    assert paths.find_keystore("mine", devnet.network_file) == mine
    assert paths.find_keystore("alice", devnet.network_file) == devnet.key_file("alice")
    monkeypatch.setenv("ZOO_ACCOUNT", "mine")
    assert paths.find_keystore(None, devnet.network_file) == mine
    monkeypatch.setenv("ZOO_STORE", "kubo:http://127.0.0.1:5001")
    assert paths.store_location(None, devnet.network_file) == "kubo:http://127.0.0.1:5001"
    assert paths.store_location("there", devnet.network_file) == "there"


def test_a_devnet_in_another_folder__is_used_by_naming_its_network_file(tmp_path: Path):
    with running(a_devnet(tmp_path / "elsewhere")) as files:
        with pytest.raises(ConfigError, match="no network file"):
            paths.find_network_file()
        network = paths.find_network_file(files.network_file)
        assert paths.find_keystore(None, network) == files.key_file("me")
        assert paths.store_location(None, network) == str(files.store)


def test_a_devnet_that_does_not_run__is_said_with_the_command_that_starts_it(tmp_path: Path):
    files = a_devnet(paths.home() / "devnet")
    files.mark_ready("me")  # it was killed
    with pytest.raises(ConfigError, match="is not running") as caught:
        paths.find_network_file()
    assert caught.value.hint.endswith("zoo devnet --nodes 3")
    elsewhere = a_devnet(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="elsewhere is not running") as caught:
        paths.find_network_file(elsewhere.network_file)
    assert caught.value.hint.endswith(f"zoo devnet --nodes 3 --dir {elsewhere.folder}")


def test_a_devnet_that_starts__is_waited_for(tmp_path: Path):
    with running(a_devnet(paths.home() / "devnet"), ready=False), pytest.raises(ConfigError, match="still starting"):
        paths.find_network_file()


def test_without_any_network__the_hint_is_a_devnet():
    with pytest.raises(ConfigError, match="no devnet is running") as caught:
        paths.find_network_file()
    assert "zoo devnet --nodes 3" in caught.value.hint
