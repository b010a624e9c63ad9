"""`docs/configuration.md` and `docs/commands.md`: made from the settings' table and from the program itself.
`python -m tests.docs_files` writes them anew; a test compares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click

from cems.cli import COMMANDS, cli
from cems.settings import Settings, environment_name, fields

FOLDER = Path(__file__).resolve().parent.parent / "docs"
_PLACES = {"home": "the platform's user data folder"}


def configuration() -> str:
    """Every setting: environment variable, key in config.toml, type, default, meaning."""
    hints = get_type_hints(Settings)
    sections: dict[str, list[str]] = {}
    for field in fields():
        toml = field.metadata["toml"]
        section = toml.partition(".")[0] or "general"
        default = field.default_factory() if callable(field.default_factory) else field.default
        shown = _PLACES.get(field.name) or _default(default)
        others = "".join(f", or `{name}`" for name in field.metadata["also"])
        secret = " Secret: `config.toml` must then be mode 600." if field.metadata["secret"] else ""
        sections.setdefault(section, []).append(
            f"| `{environment_name(field)}`{others} | {f'`{toml}`' if toml else ''} | {_type(hints[field.name])} "
            f"| {shown} | {field.metadata['meaning'].replace('|', '/')}.{secret} |"
        )
    text = [
        "# Configuration",
        "",
        "Made from the program by `make docs`. A setting comes from the environment, else from `config.toml` in",
        "`CEMS_HOME`, else from its default; `cems config` shows the effective ones and where each came from. Services",
        "read `service.env` in `CEMS_HOME`. A variable or a key that is nearly one of these is refused, not ignored.",
    ]
    for section, rows in sections.items():
        text += [
            "",
            f"## {section}",
            "| variable | key | type | default | meaning |",
            "|---|---|---|---|---|",
            *rows,
        ]
    return "\n".join(text) + "\n"


def commands() -> str:
    """Every command's help."""
    text = ["# Commands", "", "Made from the program by `make docs`: what each `--help` says."]
    for section, names in COMMANDS.items():
        text += ["", f"## {section}"]
        for name in names:
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            for path, one in _walk(command, f"cems {name}"):
                text += ["", f"### {path}", "```", _help(one, path), "```"]
    return "\n".join(text) + "\n"


def _walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _walk(inner, f"{path} {name}")


def _help(command: click.Command, path: str) -> str:
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
    lines = command.get_help(context).rstrip().splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _default(value: Any) -> str:
    if value in ("", ()):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    return f"`{str(value).lower() if isinstance(value, bool) else f'{value:g}' if isinstance(value, float) else value}`"


def _type(hint: Any) -> str:
    if hint == tuple[str, ...]:
        return "list, by commas"
    plain = get_args(hint)[0] if get_args(hint) else hint
    return {str: "text", int: "number", float: "number", bool: "yes or no", Path: "folder"}.get(plain, "text")


FILES = {"configuration.md": configuration, "commands.md": commands}


def main() -> None:
    """Write the files."""
    for name, make in FILES.items():
        (FOLDER / name).write_text(make())


def links(text: str) -> list[str]:
    """The targets of a Markdown text's links that lead into this project."""
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """The anchors of a Markdown text's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


if __name__ == "__main__":
    main()
