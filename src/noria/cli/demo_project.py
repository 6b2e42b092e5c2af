"""The demo's small broken project: a till with two bugs in two files, and tests that show them.

Owns: its files, and counting what its tests say. Must not know: who mends it. Needs only the standard library.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import NamedTuple

FILES = {
    "README.md": """\
# till

Prices, baskets and receipts of a small shop. Run the tests with `python -m unittest`.

- Prices are whole cents; a text like `19.99` becomes exactly 1999.
- Ten or more of one thing are a tenth cheaper, rounded down in the customer's favour.
""",
    "till/__init__.py": "",
    "till/prices.py": '''\
"""Prices in whole cents."""


def to_cents(text):
    """The cents of a price like "19.99"; raises ValueError for anything else."""
    amount = float(text.replace(",", "."))
    if amount < 0:
        raise ValueError("a price cannot be negative")
    return int(amount * 100)


def show(cents):
    """A price for people: 1999 is "19.99"."""
    return f"{cents // 100}.{cents % 100:02d}"
''',
    "till/basket.py": '''\
"""What a customer buys, and what it costs."""

from till.prices import show, to_cents

BULK = 10


class Basket:
    def __init__(self):
        self.lines = []

    def add(self, name, price, count=1):
        """Put `count` of a thing into the basket, at a price like "0.29"."""
        self.lines.append((name, to_cents(price), count))

    def line_total(self, cents, count):
        """The price of one line; bulk is a tenth cheaper."""
        total = cents * count
        if count > BULK:
            total -= -(-total // 10)
        return total

    def total(self):
        return sum(self.line_total(cents, count) for _, cents, count in self.lines)

    def receipt(self):
        rows = [f"{count} x {name}: {show(self.line_total(cents, count))}" for name, cents, count in self.lines]
        return "\\n".join([*rows, f"total: {show(self.total())}"])
''',
    "tests/__init__.py": "",
    "tests/test_prices.py": """\
import unittest

from till.prices import show, to_cents


class PricesTest(unittest.TestCase):
    def test_whole_amounts(self):
        self.assertEqual(to_cents("3"), 300)

    def test_every_cent_counts(self):
        for cents in range(2000):
            self.assertEqual(to_cents(show(cents)), cents)

    def test_comma(self):
        self.assertEqual(to_cents("0,29"), 29)

    def test_negative(self):
        with self.assertRaises(ValueError):
            to_cents("-1")
""",
    "tests/test_basket.py": """\
import unittest

from till.basket import Basket


class BasketTest(unittest.TestCase):
    def test_few(self):
        basket = Basket()
        basket.add("apple", "0.50", 9)
        self.assertEqual(basket.total(), 450)

    def test_ten_are_bulk(self):
        basket = Basket()
        basket.add("apple", "0.50", 10)
        self.assertEqual(basket.total(), 450)

    def test_many(self):
        basket = Basket()
        basket.add("apple", "0.50", 20)
        self.assertEqual(basket.total(), 900)

    def test_receipt(self):
        basket = Basket()
        basket.add("pear", "0.29", 10)
        basket.add("bread", "4.35")
        self.assertEqual(basket.receipt(), "10 x pear: 2.61\\n1 x bread: 4.35\\ntotal: 6.96")
""",
}


class Tests(NamedTuple):
    """What a test run said: how many ran and how many of them did not pass (`ran` 0: it did not run at all)."""

    ran: int
    failed: int

    @property
    def passed(self) -> int:
        return self.ran - self.failed


def make(folder: str) -> None:
    """Writes the project into an empty folder."""
    for name, text in FILES.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def run_tests(folder: str) -> Tests:
    """Runs the project's tests, without noria."""
    command = [sys.executable, "-B", "-m", "unittest"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return read_tests(done.stderr)


def read_tests(output: str) -> Tests:
    """What the output of unittest says."""
    ran = re.search(r"^Ran (\d+) tests?", output, re.MULTILINE)
    bad = re.search(r"^FAILED \((.*)\)$", output, re.MULTILINE)
    failed = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", bad[1]))) if bad else 0
    return Tests(int(ran[1]) if ran else 0, failed)


def changes(folder: str) -> str:
    """What differs from the broken project, as a unified diff."""
    import difflib

    pieces: list[str] = []
    for name, before in FILES.items():
        path = os.path.join(folder, name)
        after = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                after = file.read()
        pieces += difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(pieces)
