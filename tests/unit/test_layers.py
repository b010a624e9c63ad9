"""Who may import whom, as ARCHITECTURE.md's table says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = {"cems", "db", "observer", "maintenance", "recall"}
WRITE_SIDE = {"db.ingest", "db.ledger", "db.lease", "db.access", "db.migrate"}


def layer(module: str) -> str:
    """The layer a module belongs to: a package, or one of the three parts of cems."""
    if module.startswith("cems.cli") or module == "cems.__main__":
        return "command line"
    if module.startswith("cems.providers."):
        return "providers"
    return "words" if module.split(".")[0] == "cems" else module.split(".")[0]


MAY_IMPORT = {
    "words": {"words"},
    "providers": {"words", "providers"},
    "db": {"words", "db"},
    "observer": {"words", "providers", "db", "observer"},
    "maintenance": {"words", "providers", "db", "maintenance"},
    "recall": {"words", "providers", "db", "recall"},
    "command line": {"words", "providers", "db", "observer", "maintenance", "recall", "command line"},
}


def imported(path: Path) -> set[str]:
    """Modules of ours a file imports, functions' own imports included."""
    found = set()
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(p for p in (base, node.module) if p)
            found |= {f"{module}.{alias.name}" for alias in node.names} | {module}
    return {name for name in found if name.split(".")[0] in OURS}


@pytest.mark.parametrize(
    "path",
    [p for o in sorted(OURS) for p in sorted((ROOT / o).rglob("*.py"))],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_imports_follow_the_layers(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    own = layer(module.removesuffix(".__init__"))
    for name in imported(path):
        assert layer(name) in MAY_IMPORT[own], f"{module} imports {name}"
        if own == "recall":
            assert not any(name.startswith(w) for w in WRITE_SIDE), f"{module} imports {name}, which writes"
