"""`cems config`: the effective settings and where each came from, with secrets masked; and the reference table that the
documentation carries."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import click

from cems import settings as configuration
from cems.cli import output
from cems.errors import SettingsError
from cems.settings import Settings

MASK = "****"
_SHOWN_FROM = 13
"""Characters a secret must have for its last four to be shown."""
_IN_URL = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^:@/\s]*:).*(?P<after>@)", re.I | re.S)
_IN_WORDS = re.compile(r"(?P<name>password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&]+)", re.I)


@click.command()
@click.option("--path", "only_path", is_flag=True, help="Only where config.toml is, or would be.")
@click.option(
    "--reference", is_flag=True, help="Every setting with its default and meaning, as a Markdown table."
)
@output.json_option
def config(only_path: bool, reference: bool, as_json: bool) -> int:
    """Show the effective settings and where each came from; secrets are masked.

    A setting is taken from its environment variable, else from config.toml, else it has its default.

    \b
    Example of a config.toml:
      [observer]
      batch_size = 50000
    """
    if reference:
        rows = _reference_rows()
        output.document(rows) if as_json else click.echo(_markdown(rows))
        return 0
    settings = configuration.load()
    file = settings.home / "config.toml"
    if only_path:
        output.document({"path": str(file), "exists": file.exists()}) if as_json else click.echo(str(file))
        return 0
    from maintenance import schedule

    rows = [_row(settings, field) for field in configuration.fields()]
    wrong = schedule.problems(settings)
    problems = [{"problem": str(error), "hint": error.hint} for error in wrong]
    if as_json:
        found = {"path": str(file), "exists": file.exists(), "settings": rows, "problems": problems}
        output.document(found)
    else:
        _show(rows, file)
        for error in wrong:
            output.error(str(error), error.hint)
    return SettingsError.exit_code if wrong else 0


def masked(value: str) -> str:
    """A secret as it may be shown."""
    return MASK + value[-4:] if len(value) >= _SHOWN_FROM else MASK


def without_passwords(value: str) -> str:
    """An address or conninfo with every password in it masked."""
    return _IN_WORDS.sub(rf"\g<name>{MASK}", _IN_URL.sub(rf"\g<before>{MASK}\g<after>", value))


def _understood(value: str) -> bool:
    """Whether a conninfo parses, and its password is where it would be masked."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        password = conninfo_to_dict(value).get("password")
    except ProgrammingError:
        return False
    return not password or str(password) not in without_passwords(value)


def shown(field: dataclasses.Field[Any], value: Any) -> Any:
    """A setting's value as it may be shown."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str) and value:
        if field.metadata["secret"] and "url" not in field.name:
            return masked(value)
        if field.metadata["secret"] and not _understood(value):
            return MASK  # what cannot be read cannot be masked in part
        hidden = without_passwords(value)
        # What is neither address nor conninfo cannot be masked in part.
        return (
            masked(value) if field.metadata["secret"] and "://" not in value and "=" not in value else hidden
        )
    return list(value) if isinstance(value, tuple) else value


def _row(settings: Settings, field: dataclasses.Field[Any]) -> dict[str, Any]:
    value = getattr(settings, field.name)
    return _names(field) | {
        "value": shown(field, value),
        "source": settings.sources.get(field.name, "default"),
    }


def _names(field: dataclasses.Field[Any]) -> dict[str, Any]:
    return {
        "name": field.name,
        "environment": configuration.environment_name(field),
        "also": list(field.metadata["also"]),
        "toml": field.metadata["toml"] or None,
        "meaning": field.metadata["meaning"],
        "secret": field.metadata["secret"],
    }


def _reference_rows() -> list[dict[str, Any]]:
    rows, defaults = [], Settings()
    for field in configuration.fields():
        default = getattr(defaults, field.name)
        if field.name == "home":
            default = "the platform's user data folder"
        rows.append(_names(field) | {"default": list(default) if isinstance(default, tuple) else default})
    return rows


def _show(rows: list[dict[str, Any]], file: Path) -> None:
    from rich.text import Text

    console = output.console()
    for row in rows:
        given = row["source"] != "default"
        line = Text(f"{row['environment']} = ", style="bold" if given else "")
        line.append(output.clean(_value(row["value"])) or '""', style="green" if given else "")
        console.print(line, soft_wrap=True)
        source = f" · from {row['source']}" if given else " · default"
        about = f"{row['toml'] or 'environment only'}{source} · {row['meaning']}"
        output.block(console, about, indent=4, style="dim")
    where = "" if file.exists() else ", which does not exist"
    output.note(f"\nFrom the environment and {file}{where}.")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _markdown(rows: list[dict[str, Any]]) -> str:
    lines = ["| environment | config.toml | default | meaning |", "|---|---|---|---|"]
    for row in rows:
        names = ", ".join(f"`{name}`" for name in (row["environment"], *row["also"]))
        default = _value(row["default"])
        cell = default if row["name"] == "home" else f"`{default}`" if default else "empty"
        meaning = row["meaning"].replace("|", "\\|")
        lines.append(f"| {names} | {'`' + row['toml'] + '`' if row['toml'] else '—'} | {cell} | {meaning} |")
    return "\n".join(lines)
