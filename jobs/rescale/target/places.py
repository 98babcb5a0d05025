"""Where everything of a run lies: the result in the target, flat; all that is ours in `<target>.rescale/` beside it.

Flink deletes a claimed savepoint directory non-recursively, so the target must hold nothing but the snapshot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rescale.planning.asked.request import beside
from rescale.planning.values.plan import Plan
from rescale.storage.locations import join

_DOCUMENT = re.compile(
    r"claim|discarding|publishing|published|candidate|certificate\.json|report\.(html|json)|plan-[0-9a-f]{64}\.(json|md)|(handles|result)-\w+\.json"
    r"|run-[0-9a-f]{8}-[0-9a-f]{16}\.json|staging/.+|\..+\.tmp"
)
_STATE = re.compile(r"[0-9a-f]{32}-(?:raw)?(?:keyed|operator)-\d+-([0-9a-f]{8})(?:-.+)?")
"""As `Plan.file_name` has it."""


@dataclass(frozen=True)
class Places:
    """The places of the run of one plan; `digest` is the plan's, in hex."""

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
        """The plan for people, in Markdown."""
        return self._beside(f"plan-{self.digest}.md")

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
        """There since shortly before the result was published."""
        return self._beside("publishing")

    @property
    def published(self) -> str:
        """There since shortly after the result was published, whatever becomes of its `_metadata`."""
        return self._beside("published")

    @property
    def report(self) -> str:
        """What is known of the run, as a page to look at."""
        return self._beside("report.html")

    @property
    def report_data(self) -> str:
        """What the page is made of that the plan does not hold."""
        return self._beside("report.json")

    def written_handles(self, step: str) -> str:
        """The handles that one of the two moving steps wrote; `step` is `keyed` or `operator`."""
        return self._beside(f"handles-{step}.json")

    def run(self, name: str) -> str:
        """The note of a run that goes on under the claim of another one; `name` is the hash of who it is."""
        return self._beside(f"run-{self.digest[:8]}-{name}.json")

    def result(self, step: str) -> str:
        """The result document of a step's process."""
        return self._beside(f"result-{step}.json")

    def stream(self, name: str) -> str:
        return join(self.target, name)

    def _beside(self, name: str) -> str:
        return join(beside(self.target), name)


def places_of(plan: Plan) -> Places:
    return Places(plan.target, plan.digest)


def is_document(target: str, uri: str) -> bool:
    """Whether a file in our own directory is one that a run puts there; what a killed one left unfinished is, too."""
    return _DOCUMENT.fullmatch(uri.removeprefix(f"{beside(target)}/")) is not None


def plan_in_name(name: str) -> str | None:
    """The first eight digits of the plan that a file of state was written for; None for a file that is none of ours."""
    found = _STATE.fullmatch(name)
    return found[1] if found else None


def claim_place(target: str) -> str:
    return join(beside(target), "claim")


def discarding_place(target: str) -> str:
    """There as long as what lies there is being discarded."""
    return join(beside(target), "discarding")


def certificate_place(target: str) -> str:
    return join(beside(target), "certificate.json")
