"""Key files: encrypted, private, never overwritten, never talkative."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path

import pytest

from zoo_compute.chain import keystore
from zoo_compute.errors import KeystoreError, KeystoreExists, NoPassphrase, WrongPassphrase

KEY = bytes(31) + b"\x07"


def make(path: Path) -> str:
    return keystore.create(path, "correct horse", private_key=KEY, work=keystore.DEVNET_WORK)


def test_a_created_key__unlocks_with_its_passphrase(tmp_path: Path):
    path = tmp_path / "keys" / "hot.json"
    address = make(path)
    account = keystore.unlock(path, "correct horse")
    assert account.address == address == keystore.address_of(path)
    assert bytes(account.key) == KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["hot.json"]


def test_a_wrong_passphrase__is_its_own_error(tmp_path: Path):
    make(tmp_path / "hot.json")
    with pytest.raises(WrongPassphrase) as caught:
        keystore.unlock(tmp_path / "hot.json", "wrong")
    assert KEY.hex() not in str(caught.value)


def test_an_existing_file__is_not_overwritten(tmp_path: Path):
    make(tmp_path / "hot.json")
    before = (tmp_path / "hot.json").read_bytes()
    with pytest.raises(KeystoreExists):
        make(tmp_path / "hot.json")
    assert (tmp_path / "hot.json").read_bytes() == before
    assert os.listdir(tmp_path) == ["hot.json"]


def test_an_empty_passphrase__is_refused(tmp_path: Path):
    with pytest.raises(KeystoreError, match="empty"):
        keystore.create(tmp_path / "hot.json", "")


def test_a_file_others_can_read__is_refused(tmp_path: Path):
    make(tmp_path / "hot.json")
    (tmp_path / "hot.json").chmod(0o644)
    with pytest.raises(KeystoreError) as caught:
        keystore.unlock(tmp_path / "hot.json", "correct horse")
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"version": 3, "crypto": {}}', '{"address": "x", "crypto": 5}']
)
def test_a_broken_file__is_a_keystore_error(tmp_path: Path, content: str):
    path = tmp_path / "hot.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(KeystoreError, match=r"hot\.json"):
        keystore.unlock(path, "x")


def test_standard_work__is_scrypt_with_n_262144(tmp_path: Path):
    keystore.create(tmp_path / "hot.json", "x")
    crypto = json.loads((tmp_path / "hot.json").read_text())["crypto"]
    assert (crypto["kdf"], crypto["kdfparams"]["n"]) == ("scrypt", 262_144)


def test_the_passphrase__comes_from_a_file_the_environment_or_a_prompt(tmp_path: Path):
    (tmp_path / "p").write_text("from file\n")
    environ = {"ZOO_PASSPHRASE": "from environment"}
    find = keystore.find_passphrase
    assert find("k", environ) == "from environment"
    assert find("k", {**environ, "ZOO_PASSPHRASE_FILE": str(tmp_path / "p")}) == "from file"
    assert find("k", environ, file=tmp_path / "p") == "from file"
    assert find("k", {}, ask=lambda prompt: prompt) == "Passphrase for k: "


def test_no_passphrase__is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(NoPassphrase, match="no terminal"):
        keystore.find_passphrase("k", {})
    with pytest.raises(NoPassphrase, match="cannot be read"):
        keystore.find_passphrase("k", {"ZOO_PASSPHRASE_FILE": str(tmp_path / "absent")})
    (tmp_path / "p").write_text("\n")
    with pytest.raises(NoPassphrase, match="is empty"):
        keystore.find_passphrase("k", {}, file=tmp_path / "p")
