"""Which tests are tried on what: those that are quick and show what the code is for, without Spark or Flink."""

from __future__ import annotations

from pathlib import Path

from mutation import in_validation

ROOT = Path(__file__).parents[2]

DEALING = ("tests/flink/test_redistribution.py", "tests/flink/test_key_groups.py")
RESULTS = (
    "tests/runstate/test_candidate.py",
    "tests/runstate/test_certificate.py",
    "tests/runstate/test_certified_files.py",
    "tests/runstate/test_documents.py",
    "tests/runstate/test_written_handles.py",
    "tests/runstate/test_publication.py::test_who_validates_late_speaks_of_what_is_published",
    "tests/runstate/test_publication.py::test_what_is_published_is_certified_again_in_an_order_that_a_crash_does_not_matter_to",
)

TESTS = {
    "flink/redistribution.py": DEALING,
    "flink/key_groups.py": DEALING,
    "runstate/candidate.py": RESULTS,
    "runstate/certificate.py": RESULTS,
    "runstate/certified_files.py": RESULTS,
    "runstate/documents.py": RESULTS,
    "runstate/places.py": RESULTS,
    "runstate/written_handles.py": RESULTS,
    "runstate": ("tests/runstate", "-k", "not s3"),
    **in_validation.TESTS,
}
"""By file or folder, from `rescale` on; the first that fits counts.

What shows the same over S3 is left out: histories do, in less time."""

DEAR = (
    "tests/runstate/test_claim.py::test_an_interrupted_run_that_wrote_rocksdb_files_is_resumed",
    "tests/runstate/test_bucket_policy.py",
    "tests/runstate/test_versioned_buckets.py",
)
"""Tests to leave out: they start Spark or another server, or take longer than the histories that show the same."""


def tests_of(file: Path) -> tuple[str, ...]:
    """Words for pytest."""
    place = file.relative_to(ROOT / "jobs" / "rescale").as_posix()
    for name, paths in TESTS.items():
        if place == name or place.startswith(f"{name}/"):
            return (*paths, *(f"--deselect={test}" for test in DEAR))
    raise SystemExit(f"{place}: no tests are known for it; tests/mutation/table.py says which there are")
