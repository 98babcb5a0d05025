"""MkDocs hooks: the pages of the reference that are made from code, and the screenshots that lie with the tests.

The introduction of a generated page is the file of the same name in `docs/reference`. Its line `GENERATED` is replaced
by the generated part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from commands import commands_markdown, options_markdown
from documents import documents_markdown, schema_text
from forms import params_markdown, settings_markdown
from rescale.schemas.documents import DOCUMENTS

ROOT = Path(__file__).parents[2]

GENERATED = "<!-- generated -->"

_DAG_SCREENSHOTS = (
    *("form", "graph", "approval"),
    *("live-form", "live-rounds", "live-question", "live-not-yet", "live-cut-over", "live-aborted"),
)
SCREENSHOTS = (
    *(f"tests/whole_airflow/screenshots/{name}.png" for name in _DAG_SCREENSHOTS),
    *(f"tests/report/screenshots/{name}.png" for name in ("report", "load")),
)
"""Screenshots that tests take. The site has them below `images`."""


def chart_values_markdown() -> str:
    """Return the table of the chart's values, which helm-docs puts into the README of the chart."""
    readme = (ROOT / "charts" / "rescale" / "README.md").read_text(encoding="utf-8")
    return readme.partition("\n## Values\n")[2].strip()


PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_markdown,
    "reference/options.md": options_markdown,
    "reference/params.md": params_markdown,
    "reference/settings.md": settings_markdown,
    "reference/chart-values.md": chart_values_markdown,
    "reference/documents.md": documents_markdown,
}
"""Generated part of each page by the page's path."""


def on_startup(command: str, dirty: bool) -> None:  # noqa: ARG001
    """Silence warnings that Airflow logs when it is imported: with `--strict`, a warning fails the build."""
    logging.getLogger("airflow").setLevel(logging.ERROR)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the screenshots, and a file with the JSON Schema of each document."""
    for screenshot in SCREENSHOTS:
        name = f"images/{Path(screenshot).name}"
        files.append(File.generated(config, name, abs_src_path=str(ROOT / screenshot)))
    for document in DOCUMENTS:
        files.append(File.generated(config, f"reference/schemas/{document.name}.json", content=schema_text(document)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Put the generated part into its page."""
    generate = PAGES.get(page.file.src_uri)
    if generate is None:
        return markdown
    before, marker, after = markdown.partition(GENERATED)
    if not marker:
        raise ValueError(f"{page.file.src_uri} lacks the line {GENERATED}")
    return f"{before}{generate()}{after}"
