"""READMEs and documentation pages, for tests that check them."""

from __future__ import annotations

from pathlib import Path

from rescale.schemas.documents import DOCUMENTS
from rescale.schemas.schema import schema_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
READMES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "jobs" / "README.md",
    ROOT / "dags" / "README.md",
    ROOT / "charts" / "rescale" / "README.md",
    ROOT / "tests" / "README.md",
)


def fields(name: str) -> set[str]:
    """Return the fields of a published document by its JSON Schema."""
    (document,) = (document for document in DOCUMENTS if document.name == name)
    schema = schema_of(document)
    definition = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    return set(definition["properties"])
