"""An operator's configuration: what is wrong, what was expected, what to do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from keepers.config import from_dict, load, save
from keepers.processes.daemon import commands
from keepers.queue.app import make_app
from keepers.queue.broker import celery_url_of
from zoo_compute.amounts import ZEN, Token
from zoo_compute.cli import main as cli
from zoo_compute.errors import ConfigError

GOOD = {"name": "alpha", "network": "network.json", "operator": 3}


def test_a_saved_configuration__reads_back_equal(tmp_path: Path):
    config = from_dict({**GOOD, "price": "0.85", "roles": ["provider", "verifier"]}, tmp_path)
    save(config)
    assert load(tmp_path) == config
    assert config.price_in(ZEN, 0) == 85 * 10**16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capcity": 4}, "unknown key 'capcity'; did you mean 'capacity'"),
        ({"capacity": "4"}, "capacity: expected a whole number, got '4'"),
        ({"capacity": 0}, "capacity: expected 1 to 512"),
        ({"price": "cheap"}, "price: expected a positive decimal"),
        ({"price": "-1"}, "price: expected a positive decimal"),
        ({"price": "inf"}, "price: expected a positive decimal"),
        ({"roles": ["verifyer"]}, "unknown role 'verifyer'; did you mean 'verifier'"),
        ({"operator": 0}, "register first"),
        (
            {"broker": "ftp://x"},
            "broker: expected 'embedded', or a URL that begins with redis:// or rediss://, got 'ftp://x'",
        ),
        ({"broker": ""}, "broker: expected 'embedded'"),
        ({"threads": -1}, "threads: expected 0 to 1024"),
        ({"demand_after_s": -1}, "demand_after_s: expected 0 to 86400"),
        ({"deposits_per_job": "much"}, "deposits_per_job: expected a decimal such as '0.05', or '0' to demand nothing"),
        ({"sample_rate": 1.5}, "sample_rate: expected 0 to 1"),
    ],
)
def test_a_wrong_value__is_refused_with_what_was_expected(change, message, tmp_path: Path):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        from_dict({**GOOD, **change}, tmp_path)


def test_a_missing_or_broken_file__says_what_to_do(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert "zoo node configure" in caught.value.hint
    (tmp_path / "operator.json").write_text("{")
    with pytest.raises(ConfigError, match="is not JSON"):
        load(tmp_path)
    (tmp_path / "operator.json").write_text(json.dumps([]))
    with pytest.raises(ConfigError, match="an object was expected"):
        load(tmp_path)


def test_a_verifier__needs_no_registration(tmp_path: Path):
    assert from_dict({"name": "eye", "network": "n", "roles": ["verifier"]}, tmp_path).operator == 0


TOKEN = "0x00000000000000000000000000000000000000AA"
USDC = Token("USDC", 6, TOKEN)


def test_a_price__is_of_its_token(tmp_path: Path):
    config = from_dict({**GOOD, "price": "1", "prices": {TOKEN.lower(): {"price": "0.8"}}}, tmp_path)
    assert (config.price_in(ZEN, 0), config.price_in(ZEN, 1)) == (10**18, 10**18)
    assert (config.price_in(USDC, 0), config.price_in(USDC, 1)) == (800_000, None)
    assert config.price_in(Token("DAI", 18, "0x" + "bb" * 20), 0) is None
    assert config.priced_tokens == (TOKEN,)


def test_a_price_finer_than_its_token__needs_the_operator(tmp_path: Path):
    config = from_dict({**GOOD, "prices": {TOKEN: {"price": "0.0000001"}}}, tmp_path)
    with pytest.raises(ConfigError, match="price in USDC has more than 6 decimals"):
        config.price_in(USDC, 0)


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ({"ZEN": {"price": "1"}}, "expected a token's address"),
        ({TOKEN: "1"}, "or one of them"),
        ({TOKEN: {}}, "or one of them"),
        ({TOKEN: {"prise": "1"}}, "unknown key 'prise'; did you mean 'price'"),
        ({TOKEN: {"price": 1}}, "expected a positive decimal"),
        ({TOKEN: {"price": "0"}}, "expected a positive decimal"),
    ],
)
def test_a_wrong_price_in_a_token__is_refused_with_what_was_expected(prices, message, tmp_path: Path):
    with pytest.raises(ConfigError, match=message):
        from_dict({**GOOD, "prices": prices}, tmp_path)


def test_the_gateway__listens_on_other_addresses_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    save(from_dict(GOOD, tmp_path / "node"))
    assert load(tmp_path / "node").gateway_host == "127.0.0.1"
    code = cli.run(["node", "configure", "--endpoint", "http://203.0.113.7:8600", "--gateway-port", "8600"])
    assert (code, load(tmp_path / "node").gateway_host) == (0, "127.0.0.1")
    assert cli.run(["node", "configure", "--gateway-host", "0.0.0.0"]) == 0
    config = load(tmp_path / "node")
    assert commands(config)["gateway"][-6:-2] == ["--host", "0.0.0.0", "--port", "8600"]


HERE = "redis://127.0.0.1:6379/0"


@pytest.mark.parametrize(
    ("broker", "message"),
    [
        ("redis://10.0.0.7:6379/0", "in clear text to 10.0.0.7; use rediss://"),
        ("redis://:secret@redis.example/0", "in clear text to redis.example"),
        ("rediss://redis.example/0", "redis.example must ask for a password"),
        ("rediss://:secret@redis.example/0?ssl_cert_reqs=none", "ssl_cert_reqs=none accepts any server"),
        ("rediss://:secret@redis.example/0?ssl_cert_reqs=CERT_REQUIRED", "CERT_REQUIRED accepts any server"),
    ],
)
def test_a_broker_that_others_could_read_or_write__is_refused(broker: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        from_dict({**GOOD, "broker": broker}, tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("broker", "for_celery"),
    [
        (HERE, HERE),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("rediss://:secret@redis.example:6379/0", "rediss://:secret@redis.example:6379/0?ssl_cert_reqs=required"),
        (
            "rediss://:s@r.example/0?ssl_ca_certs=/ca.pem",
            "rediss://:s@r.example/0?ssl_ca_certs=/ca.pem&ssl_cert_reqs=required",
        ),
        ("rediss://:s@r.example/0?ssl_cert_reqs=required", "rediss://:s@r.example/0?ssl_cert_reqs=required"),
    ],
)
def test_a_broker_over_tls_or_on_this_machine__is_one_that_celery_takes(
    broker: str, for_celery: str, tmp_path: Path
) -> None:
    config = from_dict({**GOOD, "broker": broker}, tmp_path)
    assert celery_url_of(config.broker, tmp_path) == for_celery
    assert make_app(config).connection_for_write().transport is not None  # Celery knows the scheme


def test_operator_json__is_its_owners_alone_and_an_older_file_is_mended_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save(from_dict(GOOD, tmp_path))
    assert path.stat().st_mode & 0o777 == 0o600
    load(tmp_path)
    assert caplog.text == ""
    path.chmod(0o644)
    load(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "other users could read it; it is 0600 now" in caplog.text


def test_a_price_in_dollars__is_of_credits_while_they_have_a_rate(tmp_path: Path):
    credits = Token("CREDIT", 18, TOKEN, rate=2 * 10**18)
    config = from_dict({**GOOD, "prices": {TOKEN: {"price": "$0.50", "aggregator_price": "0.1"}}}, tmp_path)
    assert (config.price_in(credits, 0), config.price_in(credits, 1)) == (25 * 10**16, 10**17)
    stale = replace(credits, rate=0)
    assert (config.price_in(stale, 0), config.price_in(stale, 1)) == (None, 10**17)
    assert load_after_save(config) == config


def load_after_save(config):
    save(config)
    return load(config.folder)


@pytest.mark.parametrize("text", ["$", "$0", "$-1", "1$"])
def test_a_price_that_is_no_amount_of_dollars__is_refused(text: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"expected a positive decimal such as '0\.9'"):
        from_dict({**GOOD, "prices": {TOKEN: {"price": text}}}, tmp_path)
    with pytest.raises(ConfigError, match="expected a positive decimal"):
        from_dict({**GOOD, "price": "$0.5"}, tmp_path)
