"""Counts what was compared, and keeps what differs."""

import collections
import math

compared = collections.Counter()
differences = []


def found(look):
    """The differences that a look at something finds."""
    differences.clear()
    look()
    lines = set(differences)
    differences.clear()
    return lines


def same(what, wanted, told):
    """`told` by the report must be `wanted`; fractions may differ in their last digits."""
    compared[what.split(":")[0]] += 1
    if isinstance(wanted, (int, float)) and isinstance(told, (int, float)):
        equal = math.isclose(wanted, told, rel_tol=1e-9, abs_tol=1e-9)
    else:
        equal = wanted == told
    if not equal:
        differences.append(f"{what}: run.db gives {wanted!r}, the report says {told!r}")


def same_fields(what, wanted, told):
    if wanted is None or told is None:
        same(what, wanted, told)
        return
    for key, value in wanted.items():
        same(f"{what} {key}", value, told[key])


def same_list(what, wanted, told):
    same(f"{what} length", len(wanted), len(told))
    for n, (one, other) in enumerate(zip(wanted, told)):
        same(f"{what} {n}", one, other)
