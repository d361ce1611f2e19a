"""Every test of ddprun that docs/internals/parity.md names exists."""

import json
import re
import unittest

import launchers

ROOT = launchers.HERE.parent.parent


class ParityTableTest(unittest.TestCase):
    def test_every_test_that_it_names_exists(self):
        sources = "".join(p.read_text() for p in (ROOT / "tests/unit/worker").rglob("*_test.cc"))
        there = {f"{suite}.{name}"
                 for suite, name in re.findall(r"^TEST(?:_F)?\((\w+),\s*(\w+)\)", sources, re.M)}
        cases = json.loads((launchers.HERE / "parity_cases.json").read_text())
        there |= {"parity:" + case["name"] for case in cases}
        text = (ROOT / "docs/internals/parity.md").read_text()
        named = set(re.findall(r"`(\w+Test\.\w+|parity:\w+)`", text)) - {"parity:name"}
        self.assertGreater(len(named), 50)
        self.assertEqual(sorted(named - there), [])


if __name__ == "__main__":
    unittest.main()
