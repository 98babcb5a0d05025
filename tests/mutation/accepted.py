"""Mutants that no test shall find, and why: by function, and by how the statement reads that is different in it."""

from __future__ import annotations

from mutation.mutants import Mutant

ACCEPTED: dict[str, dict[str, str]] = {}
"""By `file: function`, the file's name from `rescale` on; then by `Mutant.change`."""


def key_of(mutant: Mutant) -> str:
    parts = mutant.path.parts
    return f"{'/'.join(parts[parts.index('rescale') + 1 :])}: {mutant.function}"


def reason(mutant: Mutant) -> str:
    """Empty, if there is none."""
    return ACCEPTED.get(key_of(mutant), {}).get(mutant.change, "")
