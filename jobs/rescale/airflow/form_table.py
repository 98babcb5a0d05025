"""Markdown tables of the form fields for the README: `python -m rescale.airflow.form_table` prints them."""

from __future__ import annotations

import json

from rescale.airflow.form import Form, rescale_form
from rescale.airflow.job_form import job_form


def form_table(form: Form) -> str:
    """Return a table with a row for each field: name, section, default, meaning."""
    rows = [["Param", "section", "default", "what it means"], ["---"] * 4]
    for name, param in form.items():
        default = f"`{json.dumps(param.value)}`" if param.has_value else ""
        meaning = f"**{param.schema['title']}.** {param.schema['description_md']}"
        rows.append([f"`{name}`", param.schema.get("section", ""), default, meaning])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def job_table() -> str:
    """Return the table of the fields that only the form of a running job has."""
    return form_table({name: param for name, param in job_form().items() if name not in rescale_form()})


if __name__ == "__main__":
    print(form_table(rescale_form()), job_table(), sep="\n\n")
