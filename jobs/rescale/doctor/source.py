"""Checks of a source, which is only listed and read."""

from __future__ import annotations

from pathlib import Path

from rescale.doctor.checks import CheckList
from rescale.snapshot.reading.opening import open_readable
from rescale.storage.files import owned
from rescale.storage.files.mounts import identity_of
from rescale.storage.locations import is_s3
from rescale.storage.store import open_store
from rescale.text.advice import Advice, command
from rescale.text.names import quoted
from rescale.text.units import counted, human_bytes


def check_source(checks: CheckList, source: str) -> int | None:
    """List the source and read its metadata; return the bytes of its state, or None if they are unknown."""
    subject, source = "source", source.removesuffix("/_metadata")
    if not is_s3(source) and identity_of(Path(source)) is not None:
        owned.protect([source])  # from now on, nothing in this process may write to the source
    with checks.trying(subject, f"list {source}", "inspect and plan list the files of a snapshot") as check:
        files = open_store(source).list(source)
        total_bytes = sum(entry.size for entry in files)
        result = f"{counted(len(files), 'file')}, {human_bytes(total_bytes)}"
        check.ok(result, "the files of the snapshot can be listed")
    if checks.unreachable:
        return None
    tried = f"read _metadata and the headers of state files of {source}"
    with checks.trying(subject, tried, "nothing can be planned for a snapshot that cannot be read") as check:
        snapshot = open_readable(source)
        result = f"{counted(len(snapshot.operators), 'operator')}, {human_bytes(snapshot.bytes)} of state"
        unread_labels = [operator.label for operator in snapshot.operators if operator.read_error is not None]
        if snapshot.missing_files:
            missing_files = snapshot.missing_files
            meaning = f"{counted(len(missing_files), 'file')} of state are missing, such as {missing_files[0]}"
            advice = "find out who deletes files there, and name a complete snapshot"
            check.fail(result, meaning, advice)
        elif unread_labels:
            unread_operators_text = counted(len(unread_labels), "operator")
            meaning = f"the state of {unread_operators_text} cannot be read, such as {unread_labels[0]}"
            check.fail(result, meaning, Advice(command("inspect", quoted(source)), " says why"))
        else:
            check.ok(result, "a run can be planned")
        return snapshot.bytes
    return None
