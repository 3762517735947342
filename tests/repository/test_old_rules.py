"""The old rules that the review broke: each can be brought back as the tree is now, and the page has the tests that notice."""

from __future__ import annotations

import re

import pytest

from tests.campaigns.old_rules import OLD_RULES, ROOT, OldRule, changed
from tests.repository.test_docs_tests import is_there, named

PAGE = ROOT / "docs" / "design" / "referee.md"
# Of the review's scripts, the one whose rule is no longer the referee's: `custody` has it.
ELSEWHERE = {"aggregator_trap"}


@pytest.mark.parametrize("rule", OLD_RULES, ids=lambda rule: rule.says)
def test_an_old_rule__can_be_brought_back_and_names_tests_that_are_there(rule: OldRule) -> None:
    texts = {change.path: (ROOT / change.path).read_text() for change in rule.changes}
    for change in rule.changes:
        texts[change.path] = changed(texts[change.path], change)
    assert all(text != (ROOT / path).read_text() for path, text in texts.items())
    assert all(is_there(*test.partition("[")[0].split("::")) for test in rule.tests)


def test_the_pages_table__has_each_script_and_the_tests_that_notice_its_rule() -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| .* \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    table: dict[str, set[str]] = {}
    for scripts, tests in rows:
        for script in re.findall(r"`(\w+)`", scripts):
            table.setdefault(script, set()).update("::".join(each) for each in named(tests))
    noticing: dict[str, set[str]] = {}
    for rule in OLD_RULES:
        for script in rule.scripts:
            noticing.setdefault(script, set()).update(test.partition("[")[0] for test in rule.tests)
    assert {script: tests for script, tests in table.items() if script not in ELSEWHERE} == noticing
    assert table.keys() - noticing.keys() == ELSEWHERE
