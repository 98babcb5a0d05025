"""What the fields of a form mean, as a table in Markdown: `python -m rescale.orchestration.form_table` prints them."""

from __future__ import annotations

import json

from rescale.orchestration.form import Form, rescale_form
from rescale.orchestration.job_form import job_form


def form_table(form: Form) -> str:
    """A row for each field: its name, the section that it stands in, its default, what it means."""
    rows = [["Param", "section", "default", "what it means"], ["---"] * 4]
    for name, param in form.items():
        default = f"`{json.dumps(param.value)}`" if param.has_value else ""
        meaning = f"**{param.schema['title']}.** {param.schema['description_md']}"
        rows.append([f"`{name}`", param.schema.get("section", ""), default, meaning])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def job_table() -> str:
    """The fields that only a running job's form has."""
    return form_table({name: param for name, param in job_form().items() if name not in rescale_form()})


if __name__ == "__main__":
    print(form_table(rescale_form()), job_table(), sep="\n\n")
