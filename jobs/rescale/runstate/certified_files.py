"""The files of a certificate, in the versions that were compared with the source.

Between validation and publication, or years later, a file may be truncated, replaced or deleted. So the certificate
names every file with its version. A step or command that relies on the certificate first compares the versions again,
with one listing of the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rescale.storage.locations import contains, join, name
from rescale.storage.store import Pin, open_store, stats_of
from rescale.text.advice import SAME_COMMAND, Advice, command
from rescale.text.errors import IntegrityError, StoreError


@dataclass(frozen=True)
class CertifiedFile:
    """A file of the result: its name in the target, size in bytes, and ETag (S3) or modification time (local).

    A file of the source or the base that the result refers to is named by its URI.
    """

    name: str
    size: int
    etag: str | None
    mtime_ns: int | None

    @property
    def pin(self) -> Pin:
        return Pin(self.size, self.etag, self.mtime_ns)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the file belongs to the source or the base, so that the result only refers to it."""
        return "/" in self.name

    def uri(self, target: str) -> str:
        """Return the URI of the file, given the target of the result."""
        return self.name if self.is_elsewhere else join(target, self.name)


def certified_files(target: str, versions_before: Iterable[tuple[str, Pin]]) -> tuple[CertifiedFile, ...]:
    """Return the files to certify; `versions_before` has their URIs, and their versions before the comparison.

    Raises `StoreError` if a file has changed since then, because it is unknown which of its versions was compared.
    """
    names_and_pins = ((name(uri) if contains(target, uri) else uri, pin) for uri, pin in versions_before)
    files = tuple(
        sorted(
            (CertifiedFile(file_name, *_version_fields(pin)) for file_name, pin in names_and_pins),
            key=lambda file: file.name,
        )
    )
    for file, current_pin in _changed_files(target, files):
        raise StoreError(
            "a file of the result changed while it was compared",
            path=file.uri(target),
            expected=file.pin,
            found=current_pin or "no file",
            advice=Advice("another run of this plan may be active: ", SAME_COMMAND, " when it has ended"),
        )
    return files


def check_files(target: str, files: Sequence[CertifiedFile], *, is_published: bool) -> None:
    """Raise `IntegrityError` for the first file that is missing, or is not in its certified version."""
    changed_files = list(_changed_files(target, files))
    if not changed_files:
        return
    file, current_pin = changed_files[0]
    what, advice = (
        (
            "a file elsewhere that the result refers to is gone, or is not the certified version",
            "restore the file, without which Flink cannot restore the result; or rescale another snapshot",
        )
        if file.is_elsewhere
        else (
            "a file of the published result is gone, or is not the certified version",
            Advice(
                "compare it with its source: ",
                command("validate"),
                "; or rescale the source again, to another target",
            ),
        )
        if is_published
        else (
            "a file of the result is gone, or is not the validated version; nothing was published",
            Advice(SAME_COMMAND, ": it writes missing files again, and compares everything again"),
        )
    )
    count_text = f" ({len(changed_files)} such files)" if len(changed_files) > 1 else ""
    raise IntegrityError(
        what,
        path=file.uri(target),
        expected=file.pin,
        found=f"{current_pin or 'no file'}{count_text}",
        advice=advice,
    )


def _changed_files(target: str, files: Sequence[CertifiedFile]) -> Iterator[tuple[CertifiedFile, Pin | None]]:
    """Yield each file that is not in its certified version, with its current version (None: it does not exist).

    A listing may be outdated, so the store is asked again for each file that differs. Directories of files elsewhere
    are not listed: the right to read a file does not include the right to list its directory, which may hold many other
    files.
    """
    existing_pins = stats_of([file.name for file in files if file.is_elsewhere])
    existing_pins |= {entry.uri: entry.pin for entry in open_store(target).list(target)}
    for file in files:
        uri = file.uri(target)
        if not file.pin.matches(existing_pins.get(uri)):
            current_pin = open_store(uri).stat(uri)
            if not file.pin.matches(current_pin):
                yield file, current_pin


def _version_fields(pin: Pin) -> tuple[int, str | None, int | None]:
    return pin.size, pin.etag.strip('"') if pin.etag is not None else None, pin.mtime_ns
