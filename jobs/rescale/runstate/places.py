"""Places of a run's files: those of the result in the target, and the run's documents in `<target>.rescale/`.

A *place* is the URI of a file or a directory, whether or not it exists.

Flink deletes a claimed savepoint directory non-recursively, so the target must hold nothing but the snapshot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescale.plan.prepared_name import PREPARED
from rescale.storage.files.document_folders import DOCUMENTS_SUFFIX, ORDERS, PINS, ROUNDS
from rescale.storage.locations import contains, join, resolve_links

if TYPE_CHECKING:
    from rescale.plan.plan import Plan

CLAIM = "claim"
"""Name of the claim in a directory of documents."""

_DOCUMENT_NAME = re.compile(
    r"claim|discarding|prepared\.json|copies\.json|publishing|published|candidate|certificate\.json|report\.(html|json)|plan-[0-9a-f]{64}\.(json|md)|(question|approval)-[0-9a-f]{64}\.json|(handles|result)-\w+\.json"
    r"|run-[0-9a-f]{8}-[0-9a-f]{16}\.json|probe-[0-9a-f]{32}-[a-z]+|\..+\.[0-9a-f]{32}\.tmp"
)
_STAGED_NAME = re.compile(
    rf"[0-9a-f]{{32}}-(?:raw)?(?:keyed|operator)-\d+-(?:[0-9a-f]{{8}}|{PREPARED})(?:-[^/]+)?(?:\.[0-9a-f]{{32}})?"
)
"""Names of unfinished files: a `Plan.file_name` with the suffixes that stores and writers append."""

_PROBE_NAME = re.compile(r"probe-[0-9a-f]{32}-[a-z]+\.[0-9a-f]{32}")
_TEMPORARY_NAME = re.compile(r"\.staging\.[0-9a-f]{32}\.tmp")
_STATE_FILE_NAME = re.compile(rf"[0-9a-f]{{32}}-(?:raw)?(?:keyed|operator)-\d+-([0-9a-f]{{8}}|{PREPARED})(?:-.+)?")
"""Names of files of state (`Plan.file_name`)."""


def run_directory(target: str) -> str:
    """Return `<target>.rescale`, the directory for files of a run that are not part of its result.

    If the target is a symbolic link, the directory is beside the link's destination, so that each target has one claim.
    """
    return f"{resolve_links(target)}.rescale"


@dataclass(frozen=True)
class Places:
    """The URIs of the files of a plan's run; `digest` is the plan's SHA-256 in hex."""

    target: str
    digest: str

    @property
    def metadata(self) -> str:
        return join(self.target, "_metadata")

    @property
    def plan(self) -> str:
        return self._beside(f"plan-{self.digest}.json")

    @property
    def plan_page(self) -> str:
        """URI of the plan as a page in Markdown."""
        return self._beside(f"plan-{self.digest}.md")

    @property
    def question(self) -> str:
        return self._beside(f"question-{self.digest}.json")

    @property
    def decision(self) -> str:
        return self._beside(f"approval-{self.digest}.json")

    @property
    def claim(self) -> str:
        return claim_place(self.target)

    @property
    def staging(self) -> str:
        return self._beside("staging")

    @property
    def candidate(self) -> str:
        return self._beside("candidate")

    @property
    def certificate(self) -> str:
        return certificate_place(self.target)

    @property
    def publishing(self) -> str:
        """URI of the mark that is written shortly before the result is published."""
        return self._beside("publishing")

    @property
    def published(self) -> str:
        """URI of the mark that is written shortly after the result is published; it stays if `_metadata` is deleted."""
        return self._beside("published")

    @property
    def report(self) -> str:
        return self._beside("report.html")

    @property
    def report_data(self) -> str:
        """URI of the document with the data of the report that the plan does not have."""
        return self._beside("report.json")

    def written_handles(self, step: str) -> str:
        """Return the place of the document with the handles of a moving step; `step` is `keyed` or `operator`."""
        return self._beside(f"handles-{step}.json")

    def run_note(self, name: str) -> str:
        """Return the place of the note of a run that resumes under another run's claim; `name` is the note's hash."""
        return self._beside(f"run-{self.digest[:8]}-{name}.json")

    def result(self, step: str) -> str:
        return self._beside(f"result-{step}.json")

    def stream(self, name: str) -> str:
        return join(self.target, name)

    def _beside(self, name: str) -> str:
        return join(run_directory(self.target), name)


def places_of(plan: Plan) -> Places:
    return Places(plan.target, plan.digest)


def is_document(target: str, uri: str) -> bool:
    """Return whether a file beside the target belongs to a run: a document, or an unfinished file."""
    name = uri.removeprefix(f"{run_directory(target)}/")
    if name.startswith("staging/"):
        return is_staged(name.removeprefix("staging/"))
    return _DOCUMENT_NAME.fullmatch(name) is not None


def is_staged(name: str) -> bool:
    """Return whether a file in `staging/` has the name of an unfinished file of a run, or of a probe."""
    return (
        _PROBE_NAME.fullmatch(name) is not None
        or _STAGED_NAME.fullmatch(name) is not None
        or _TEMPORARY_NAME.fullmatch(name) is not None
    )


def short_digest_in_name(name: str) -> str | None:
    """Return the first eight hex digits of the plan's digest in the name of a file of state; None for any other name.

    A file that was copied ahead belongs to no plan: for its name, return `PREPARED`.
    """
    match = _STATE_FILE_NAME.fullmatch(name)
    return match[1] if match else None


def is_prepared_file(name: str) -> bool:
    """Return whether a file in the target has the name of a file that was copied ahead."""
    return short_digest_in_name(name) == PREPARED


def claim_place(target: str) -> str:
    return join(run_directory(target), CLAIM)


def prepared_place(target: str) -> str:
    """Return the place of the plan of a preparation, which copies files into the target before a run claims it."""
    return join(run_directory(target), "prepared.json")


def copies_place(target: str) -> str:
    """Return the place of the document that names compared copies in a target (`compared_copies`)."""
    return join(run_directory(target), "copies.json")


def discarding_place(target: str) -> str:
    """Return the place of the note that exists while the target is being discarded."""
    return join(run_directory(target), "discarding")


def probe_place(target: str, name: str) -> str:
    """Return the place of a probe, a small file that tests the store; `name` is random."""
    return join(run_directory(target), f"probe-{name}")


def certificate_place(target: str) -> str:
    return join(run_directory(target), "certificate.json")


def follower_place(target: str) -> str:
    """Return the place of the document that names the job of the target's follower."""
    return join(run_directory(target), "follower.json")


def cut_over_place(target: str) -> str:
    """Return the place of the decision on the cut-over to a followed target."""
    return join(run_directory(target), "cut-over.json")


def pins_place(target: str) -> str:
    """Return the directory of a follower's pins, which has a subdirectory for each checkpoint directory (`Pins`)."""
    return join(run_directory(target), PINS)


def rounds_place(target: str) -> str:
    return join(run_directory(target), ROUNDS)


def orders_place(target: str) -> str:
    """Return the directory of orders for the process that makes a follower's rounds on another machine."""
    return join(run_directory(target), ORDERS)


def is_follower_file(target: str, uri: str) -> bool:
    """Return whether a file belongs to the target's follower: a document, a pin, an order, or a file of a round."""
    documents = (follower_place(target), cut_over_place(target))
    folders = (pins_place(target), rounds_place(target), orders_place(target))
    return uri in documents or any(contains(folder, uri) for folder in folders)


def is_in_follower_directory(uri: str) -> bool:
    """Return whether a URI is in a follower's directory of pins or rounds, whose files change and are not protected."""
    return any(f"{DOCUMENTS_SUFFIX}/{folder}/" in resolve_links(uri) for folder in (PINS, ROUNDS))
