"""The tables in `dags/README.md` are those of the forms; `python -m rescale.airflow.form_table` makes them."""

from __future__ import annotations

import pytest

from rescale.airflow.form import rescale_form
from rescale.airflow.form_table import form_table, job_table
from support.readme import DAGS


@pytest.mark.parametrize("table", [form_table(rescale_form()), job_table()], ids=["savepoint", "job"])
def test_the_readme_has_the_current_table(table: str) -> None:
    assert f"\n\n{table}\n" in DAGS.read_text(encoding="utf-8")


def test_every_field_has_a_title_and_says_what_it_means() -> None:
    for param in rescale_form().values():
        assert param.schema["title"]
        assert param.schema["description_md"].endswith(".")
