"""Each contract has tests that a mutant of it must not pass; what is declared equivalent is still in the sources."""

from __future__ import annotations

import tomllib

from tests.campaigns.mutation.campaign import EQUIVALENT, equivalents, sources
from tests.campaigns.mutation.mutants import statements
from tests.campaigns.mutation.suites import CONTRACTS, LEFT_OUT, ROOT, SUITES, files, users


def test_suites__name_tests_that_exist_for_every_contract():
    assert {path.stem for path in CONTRACTS.glob("*.vy")} <= set(SUITES)
    every = "".join((ROOT / name).read_text() for name in files(list(SUITES), whole=True))
    scenarios = "".join(path.read_text() for path in (ROOT / "tests" / "support" / "scenarios").glob("*.py"))
    assert [name for name in LEFT_OUT if name not in every + scenarios] == []


def test_users__of_a_module__are_the_contracts_that_import_it_by_any_way():
    assert users(CONTRACTS / "Auction.vy") == ["Auction"]
    assert users(CONTRACTS / "modules" / "consent.vy") == ["NodeRegistry", "Channels"]
    assert users(CONTRACTS / "modules" / "terms.vy") == ["TaskRegistry", "Auction", "Locks"]
    assert {"Auction", "NodeRegistry", "Settlement"} <= set(users(CONTRACTS / "modules" / "bits.vy"))


def test_equivalents__are_each_of_a_statement_that_still_stands_and_have_a_reason():
    entries = tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])
    for entry in entries:
        (source,) = sources([entry["source"]])
        texts = {each.text.strip() for each in statements(source.read_text())}
        assert entry["before"] in texts, f"no longer in {entry['source']}: {entry['before']}"
        assert len(entry["reason"]) > 20
        assert (entry["before"], entry["after"]) in equivalents(entry["source"])
