"""`zoo node configure` and what it says of whom to serve and of prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401

FRIEND, STRANGER = "0x00000000000000000000000000000000000000AA", "0x00000000000000000000000000000000000000bb"


def configure(zoo: Zoo, *options: str) -> dict:
    zoo.home.mkdir(exist_ok=True)
    (zoo.home / "network.json").write_text("{}")
    file = str(zoo.home / "network.json")
    return zoo.json(
        "node", "configure", "--home", str(zoo.home / "node"), "--network-file", file, "--operator", "3", *options
    )


def test_configure__keeps_lists_of_submitters_until_others_replace_them(zoo: Zoo) -> None:
    assert (configure(zoo)["allow"], configure(zoo)["deny"]) == ([], [])
    assert configure(zoo, "--allow", FRIEND, "--allow", STRANGER, "--deny", STRANGER)["allow"] == [FRIEND, STRANGER]
    later = configure(zoo, "--allow", FRIEND)
    assert (later["allow"], later["deny"]) == ([FRIEND], [STRANGER])
    assert configure(zoo, "--allow", "none")["allow"] == []
    code, _, err = zoo.run("node", "configure", "--home", str(zoo.home / "node"), "--deny", "alice")
    assert (code, "deny: expected submitters' addresses, got 'alice'" in err) == (1, True)


def test_configure__takes_a_price_script_that_can_be_run(zoo: Zoo, tmp_path: Path) -> None:
    script = tmp_path / "price"
    script.write_text("#!/bin/sh\necho 1\n")
    code, _, err = zoo.run("node", "configure", "--home", str(zoo.home / "node"), "--price-script", str(script))
    assert (code, "is not a program" in err, f"chmod +x {script}" in err) == (1, True, True)
    script.chmod(0o700)
    assert configure(zoo, "--price-script", str(script))["price_script"] == str(script)
    assert configure(zoo)["price_script"] == str(script)
    assert configure(zoo, "--price-script", "none")["price_script"] == ""


@pytest.mark.parametrize(("power", "fine"), [("0.2", True), ("0", True), ("-1", False), ("dear", False)])
def test_configure__takes_what_power_costs(zoo: Zoo, power: str, fine: bool) -> None:
    configure(zoo)
    code, _, _ = zoo.run("node", "configure", "--home", str(zoo.home / "node"), f"--power-price={power}")
    assert (code == 0) is fine
