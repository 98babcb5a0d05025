"""The options of a request as a table in Markdown: `python -m rescale.options.table` prints it."""

from __future__ import annotations

from rescale.options.option import NO_FIELD
from rescale.options.rows import OPTIONS


def options_table() -> str:
    """A row for each option: an example, the commands that take it, the Param of the form, what it means."""
    rows = [["option", "commands", "Param", "what it means"], ["---"] * 4]
    for row in OPTIONS:
        default = f" (default: {row.default})" if row.choices else ""
        commands = ", ".join(f"`{command}`" for command in row.commands)
        rows.append(
            [
                f"`{row.example}`",
                commands,
                f"`{row.field.name}`" if row.field is not NO_FIELD else "",
                f"{row.help}{default}",
            ]
        )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


if __name__ == "__main__":
    print(options_table())
