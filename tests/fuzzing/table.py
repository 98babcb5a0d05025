"""All subjects by the name of their module, which is imported when the subject is requested."""

from __future__ import annotations

from importlib import import_module

from fuzzing.subject import Subject

SUBJECT_NAMES = (
    "metadata",
    "opening",
    "headers",
    "key_groups",
    "heap",
    "changelogs",
    "operator_state",
    "serializers",
    "java_streams",
    "kafka",
    "offset_rows",
    "manifest",
    "tables",
    "library",
    "options",
    "plans",
    "certificates",
    "documents",
)


def subject_of(name: str) -> Subject:
    subject: Subject = import_module(f"fuzzing.subjects.{name}").SUBJECT
    return subject
