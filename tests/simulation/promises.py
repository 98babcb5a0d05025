"""Promises about a published result, and the error for a broken promise."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence

from rescale.plan.proof import Proof
from simulation.bucket import Bucket
from simulation.contents import Contents
from simulation.model import assert_right, kinds_of, shapes_of
from simulation.rows import WrongError, assert_same
from simulation.run import BASE, SOURCE, Wish
from simulation.script import expected_kinds, expected_shapes


class BrokenPromiseError(AssertionError):
    """Behaviour of a history that breaks a promise."""


def must(condition: bool, violation: str) -> None:
    if not condition:
        raise BrokenPromiseError(violation)


def error_line(error: BaseException) -> str:
    """Return the error in one line."""
    return f"{type(error).__name__}: {str(error)[:400]}".replace("\n", ", ")


def assert_published(
    bucket: Bucket,
    folder: str,
    wishes: Sequence[Wish],
    source_versions: Sequence[Mapping[str, bytes]],
    *,
    allows_strangers: bool,
) -> tuple[Wish, Mapping[str, bytes]]:
    """Assert that the result is right for one of the wishes and one version of the source, and return both.

    With `allows_strangers`, files of another run may lie in the directory of the result.
    """
    messages = []
    for wish in wishes:
        try:
            return wish, _assert_published_for(bucket, folder, wish, source_versions, allows_strangers)
        except BrokenPromiseError as error:
            messages.append(str(error))
    raise BrokenPromiseError("; by another wish: ".join(messages))


def _assert_published_for(
    bucket: Bucket, folder: str, wish: Wish, source_versions: Sequence[Mapping[str, bytes]], allows_strangers: bool
) -> Mapping[str, bytes]:
    result = bucket.data_below(folder)
    elsewhere = {f"{SOURCE}/{name}": data for name, data in bucket.data_below("source").items()}
    if wish.base:
        elsewhere |= {f"{BASE}/{name}": data for name, data in bucket.data_below("base").items()}
    differences = []
    for version in reversed(source_versions):
        try:
            assert_right(
                version,
                result,
                elsewhere,
                allows_strangers=allows_strangers,
                by_files=wish.proof is Proof.FILES,
                renames=wish.renames,
                drops=wish.drops,
                state_drops=wish.state_drops,
            )
            shapes, kinds = shapes_of(result), kinds_of(result)
            old_shapes, old_kinds = (
                shapes_of(version, wish.renames, wish.drops),
                kinds_of(version, wish.drops, wish.state_drops),
            )
            assert_same("shapes", (expected_shapes(old_shapes, wish), expected_kinds(old_kinds, wish)), (shapes, kinds))
        except WrongError as error:
            differences.append(str(error))
        except Exception as error:  # the model cannot read a damaged source
            differences.append(f"{type(error).__name__} {error} {traceback.format_exc(limit=-1)}")
        else:
            return version
    raise BrokenPromiseError(f"published, and wrong: {'; or '.join(differences)}")


def referenced_uris(result: Mapping[str, bytes]) -> list[str]:
    """Return the URIs of the files elsewhere that a result refers to."""
    return sorted(Contents(result).uris_elsewhere())
