"""The files that a certificate speaks for, in the versions that were compared with the source.

Validation reads content, publication makes it a checkpoint, and in between, or years later, a file may be cut, replaced
or deleted. So the certificate names every file with its version, and whoever relies on it looks again: one listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rescale.errors import IntegrityError, StoreError
from rescale.storage.locations import contains, join, name
from rescale.storage.store import Pin, open_store, stats_of


@dataclass(frozen=True)
class CertifiedFile:
    """A file by its name in the target: its size in bytes, and its ETag (S3) or modification time (local).

    One that the result refers to elsewhere, in the source, goes by its URI.
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
        return "/" in self.name

    def uri(self, target: str) -> str:
        return self.name if self.is_elsewhere else join(target, self.name)


def certified_files(target: str, seen: Iterable[tuple[str, Pin]]) -> tuple[CertifiedFile, ...]:
    """Those that were `seen` before their content was compared, by URI, if they still are what they were.

    `StoreError` if one is not: nobody knows then which of its versions was compared.
    """
    named = ((name(uri) if contains(target, uri) else uri, pin) for uri, pin in seen)
    files = tuple(sorted((CertifiedFile(called, *_version(pin)) for called, pin in named), key=lambda file: file.name))
    for file, found in _changed(target, files):
        raise StoreError(
            "a file of the result changed while it was compared",
            path=file.uri(target),
            expected=file.pin,
            found=found or "no file",
            advice="another run of this plan may be at work: run the same command again when it has ended",
        )
    return files


def check_files(target: str, files: Sequence[CertifiedFile], *, published: bool) -> None:
    """`IntegrityError` names the first file that is not the one that was certified."""
    changed = list(_changed(target, files))
    if not changed:
        return
    file, found = changed[0]
    what, advice = (
        (
            "a file of the source that the result refers to is gone, or is not the one that was certified",
            "put it back: without it the result cannot be restored; or rescale another snapshot",
        )
        if file.is_elsewhere
        else (
            "a file of the published result is gone, or is not the one that was certified",
            "compare it with its source: rescale validate; or rescale the source again, to another target",
        )
        if published
        else (
            "a file of the result is not the one that was validated; nothing was published",
            "run the same command again: what is gone is written again, and all of it is compared again",
        )
    )
    more = f" ({len(changed)} such files)" if len(changed) > 1 else ""
    raise IntegrityError(
        what,
        path=file.uri(target),
        expected=file.pin,
        found=f"{found or 'no file'}{more}",
        advice=advice,
    )


def _changed(target: str, files: Sequence[CertifiedFile]) -> Iterator[tuple[CertifiedFile, Pin | None]]:
    """Each file that is another one now, and what is there. A listing may be behind: who is missed is asked for.

    Nothing is listed of what lies elsewhere: who may read a source need not be allowed to, and may use little of it.
    """
    there = stats_of([file.name for file in files if file.is_elsewhere])
    there |= {entry.uri: entry.pin for entry in open_store(target).list(target)}
    for file in files:
        uri = file.uri(target)
        if not file.pin.is_of(there.get(uri)):
            found = open_store(uri).stat(uri)
            if not file.pin.is_of(found):
                yield file, found


def _version(pin: Pin) -> tuple[int, str | None, int | None]:
    return pin.size, pin.etag.strip('"') if pin.etag is not None else None, pin.mtime_ns
