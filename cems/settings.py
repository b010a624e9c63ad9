"""The settings: their names, defaults, limits and meaning, in one table. Each is taken from the environment, else from
`config.toml` in CEMS_HOME, else from its default. `cems config` is made from this table."""

from __future__ import annotations

import dataclasses
import difflib
import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import platformdirs

from cems.errors import SettingsError
from cems.models import CONCEPTS, KINDS

_FILE_LIMIT = 1024 * 1024
_NOT_SETTINGS = frozenset({"CEMS_SHARED", "CEMS_TEST_MODEL_DIR"})
"""Variables of the test-suite and the benchmarks."""

Seconds = Annotated[float, msgspec.Meta(ge=0.01, le=86400 * 366)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
Days = Annotated[int, msgspec.Meta(ge=1, le=36_500)]
"""A hundred years: what is counted back from now stays a date."""
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


def _field(default: Any, toml: str, meaning: str, *, secret: bool = False, also: tuple[str, ...] = ()) -> Any:
    """One setting: its default, its key in config.toml, what it means; `also`: other environment variables it is taken
    from when its own is not set."""
    metadata = {"toml": toml, "meaning": meaning, "secret": secret, "also": also}
    if isinstance(default, tuple):
        return dataclasses.field(default_factory=lambda: default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The effective settings. The environment variable of `observer_batch_size` is CEMS_OBSERVER_BATCH_SIZE."""

    home: Path = _field(
        Path(), "", "folder of everything CEMS keeps: database, model file, keys, locks, logs"
    )
    database_url: str = _field(
        "", "database.url", "a Postgres >= 15 with pgvector >= 0.8 instead of the embedded one", secret=True
    )
    reader_database_url: str = _field(
        "",
        "database.reader_url",
        "the same server for the read side, by a user that may only read",
        secret=True,
    )
    owner: str = _field(
        "", "database.owner", "whose memories these are on a shared server; default: the system user's name"
    )

    claude_config_dir: str = _field(
        "",
        "observer.claude_config_dir",
        "folders that hold `projects`, separated by commas; default: ~/.claude and ~/.config/claude",
        also=("CLAUDE_CONFIG_DIR",),
    )
    observer_poll_interval: Seconds = _field(
        30.0,
        "observer.poll_interval",
        "seconds between two looks at every transcript, whatever the watcher says",
    )
    observer_batch_size: Positive = _field(
        50_000, "observer.batch_size", "bytes of new transcript of a session that make a batch"
    )
    observer_idle_time: Seconds = _field(
        300.0, "observer.idle_time", "seconds without a new line after which what has gathered is observed"
    )
    observer_watch: bool = _field(
        True, "observer.watch", "use file events as hints; without them only the poll finds new lines"
    )
    observer_exclude_projects: tuple[str, ...] = _field(
        (),
        "observer.exclude_projects",
        "folders whose sessions are never read; patterns such as /home/me/clients/* cover what is below them",
    )

    gemini_api_key: str = _field(
        "",
        "llm.gemini_api_key",
        "key of the Gemini API; without one, observations come from rules",
        secret=True,
        also=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    )
    gemini_base_url: str = _field(
        "", "llm.gemini_base_url", "another address of the Gemini API, such as a gateway"
    )
    llm_model: str = _field("gemini-3.5-flash-lite", "llm.model", "model that writes observations")
    llm_timeout: Seconds = _field(60.0, "llm.timeout", "seconds for one request, retries included")
    llm_daily_calls: Count = _field(600, "llm.daily_calls", "calls a day and purpose; 0: none")
    llm_daily_tokens: Count = _field(
        4_000_000, "llm.daily_tokens", "tokens a day and purpose, in and out; 0: none"
    )

    embedder: str = _field(
        "local",
        "embedding.embedder",
        "`local` (bge-small on this machine), `gemini`, or `none` (keywords only)",
    )
    embedding_model: str = _field(
        "gemini-embedding-001", "embedding.model", "the model when the embedder is `gemini`"
    )
    embedding_dimensions: Positive = _field(
        768, "embedding.dimensions", "numbers of a vector when the embedder is `gemini`"
    )
    embedding_model_dir: str = _field(
        "", "embedding.model_dir", "folder of the local embedder's model file; default: `models` in CEMS_HOME"
    )

    extraction_concepts: tuple[str, ...] = _field(
        CONCEPTS, "extraction.concepts", "the concepts an observation may name"
    )
    extraction_attempts: Positive = _field(
        5,
        "extraction.attempts",
        "unusable answers after which a batch is split, and set aside when it cannot be",
    )

    context_tokens: Positive = _field(
        2_000,
        "context.tokens",
        "tokens of memories a session is given at its start, and with a prompt, at most",
    )
    context_observation_types: tuple[str, ...] = _field(
        ("decision", "deadend", "pattern", "preference"),
        "context.observation_types",
        "kinds of memories a session is given at its start; those added by hand always",
    )
    context_observation_concepts: tuple[str, ...] = _field(
        (),
        "context.observation_concepts",
        "concepts of memories a session is given at its start; none: any. Those without a concept always",
    )
    context_observations: Count = _field(
        40, "context.observations", "memories a session is given at its start, at most; 0: none"
    )

    recall_enabled: bool = _field(
        True, "recall.enabled", "give memories to sessions; without, every hook says nothing"
    )
    recall_memories: Count = _field(6, "recall.memories", "memories given with a prompt, at most; 0: none")
    mcp_write: bool = _field(
        False,
        "mcp.write",
        "let agents add, forget, pin and snooze memories through `cems mcp`; without, it only reads",
    )

    timezone: str = _field(
        "",
        "maintenance.timezone",
        "time zone of the schedules, such as Europe/Berlin; default: this machine's",
    )
    consolidation_schedule: str = _field(
        "0 3 * * *", "maintenance.consolidation", "when duplicates are merged (cron); `off`: never"
    )
    reflection_schedule: str = _field(
        "30 3 * * *", "maintenance.reflection", "when observations are condensed into reflections (cron)"
    )
    summarization_schedule: str = _field(
        "0 4 * * 0",
        "maintenance.summarization",
        "when old memories are summarised, and what ended long ago is archived (cron)",
    )
    reindexing_schedule: str = _field(
        "0 5 1 * *",
        "maintenance.reindexing",
        "when vectors and indexes are checked, and stale memories archived (cron)",
    )
    maintenance_deadline: Seconds = _field(
        3600.0, "maintenance.deadline", "seconds after which a job stops where it is; the next run goes on"
    )
    consolidation_threshold: Fraction = _field(
        0.92, "maintenance.consolidation_threshold", "cosine from which two memories may be the same fact"
    )
    reflection_observations: Positive = _field(
        12, "maintenance.reflection_observations", "new observations of a project that call for a reflection"
    )
    summarization_age_days: Days = _field(
        90,
        "maintenance.summarization_age_days",
        "days after which a memory that is little used is summarised",
    )
    archive_after_days: Days = _field(
        180,
        "maintenance.archive_after_days",
        "days without use after which a memory of low confidence is archived",
    )
    archive_confidence: Fraction = _field(
        0.5, "maintenance.archive_confidence", "confidence below which an unused memory is archived"
    )

    log_level: str = _field("info", "log.level", "debug, info, warning or error")
    log_format: str = _field(
        "auto", "log.format", "`console`, `json`, or `auto`: JSON unless standard error is a terminal"
    )

    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    """Where each setting that is not at its default came from."""

    @property
    def model_dir(self) -> Path:
        """Folder of the local embedder's model file."""
        return Path(self.embedding_model_dir) if self.embedding_model_dir else self.home / "models"

    def claude_dirs(self, user_home: Path | None = None) -> list[Path]:
        """The agent's configuration folders."""
        if self.claude_config_dir:
            given = [p.strip() for p in self.claude_config_dir.split(",") if p.strip()]
            return [_expanded(p, "CEMS_CLAUDE_CONFIG_DIR") for p in given]
        base = user_home or Path.home()
        return [base / ".claude", Path(os.environ.get("XDG_CONFIG_HOME") or base / ".config") / "claude"]


def fields() -> list[dataclasses.Field[Any]]:
    """Every setting, in the order of the table."""
    return [f for f in dataclasses.fields(Settings) if f.name != "sources"]


def environment_name(field: dataclasses.Field[Any]) -> str:
    """The environment variable of a setting."""
    return "CEMS_" + field.name.upper()


def default_home() -> Path:
    """The platform's folder for a user's data."""
    return Path(platformdirs.user_data_dir("cems", appauthor=False))


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """The effective settings.

    Raises:
        SettingsError: a value cannot be used, a key does not exist, or the file may be read by others and holds a secret.
    """
    env = os.environ if environment is None else environment
    _refuse_misspelt(env)
    home = _expanded(env.get("CEMS_HOME") or str(default_home()), "CEMS_HOME")
    from_file = _read_file(home / "config.toml")
    hints = get_type_hints(Settings, include_extras=True)
    values: dict[str, Any] = {"home": home.absolute()}
    sources: dict[str, str] = {"home": "CEMS_HOME"} if env.get("CEMS_HOME") else {}
    for field in fields():
        if field.name == "home":
            continue
        raw, source = _pick(field, env, from_file)
        if source:
            values[field.name] = _convert(raw, hints[field.name], source)
            sources[field.name] = source
    if from_file:
        unknown = next(iter(from_file))
        known = [f.metadata["toml"] for f in fields()]
        near = difflib.get_close_matches(unknown, known, 1)
        raise SettingsError(
            f"config.toml: there is no setting {unknown!r}",
            hint=f"did you mean {near[0]}?" if near else "`cems config` lists them all",
        )
    settings = _checked(Settings(**values, sources=sources))
    settings.claude_dirs(Path("/"))  # raises for a user who does not exist
    return settings


def _refuse_misspelt(env: Mapping[str, str]) -> None:
    """A variable that is all but one of ours would be ignored, and with it perhaps what it should keep private."""
    known = [environment_name(f) for f in fields()]
    for name in env:
        if not name.startswith("CEMS_") or name in known or name in _NOT_SETTINGS:
            continue
        short = name.removeprefix("CEMS")
        near = [k for k in known if k.endswith(short)] or difflib.get_close_matches(name, known, 1, 0.85)
        if near:
            raise SettingsError(f"there is no setting {name}", hint=f"did you mean {near[0]}?")


def _expanded(text: str, source: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise SettingsError(f"{source}: {text} names a user who does not exist") from None


def _pick(
    field: dataclasses.Field[Any], env: Mapping[str, str], from_file: dict[str, Any]
) -> tuple[Any, str]:
    """(value, where from) of one setting; taken out of `from_file` so that what remains is unknown."""
    in_file = from_file.pop(field.metadata["toml"], None)
    name = environment_name(field)
    if name in env:
        return env[name], name
    for other in field.metadata["also"]:
        if env.get(other):
            return env[other], other
    if in_file is not None:
        return in_file, f"config.toml: {field.metadata['toml']}"
    return None, ""


def _convert(raw: Any, wanted: Any, source: str) -> Any:
    if isinstance(raw, str) and "\0" in raw:
        raise SettingsError(f"{source}: a NUL character is in it")
    if isinstance(raw, str) and wanted == tuple[str, ...]:
        raw = [part.strip() for part in raw.split(",") if part.strip()]
    if isinstance(raw, str) and wanted is bool:
        raw = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(raw.lower(), raw)
    try:
        return msgspec.convert(raw, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{source}: {error}") from None


def _read_file(path: Path) -> dict[str, Any]:
    """The file's settings as {section.key: value}; empty where there is no file."""
    try:
        with path.open("rb") as f:
            mode = os.fstat(f.fileno()).st_mode
            text = f.read(_FILE_LIMIT + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    if len(text) > _FILE_LIMIT:
        raise SettingsError(f"{path} is larger than {_FILE_LIMIT} bytes")
    try:
        tables = tomllib.loads(text.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
    flat: dict[str, Any] = {}
    for section, content in tables.items():
        if isinstance(content, dict):
            flat |= {f"{section}.{key}": value for key, value in content.items()}
        else:
            flat[section] = content
    secrets = [f.metadata["toml"] for f in fields() if f.metadata["secret"] and f.metadata["toml"] in flat]
    if secrets and stat.S_IMODE(mode) & 0o077:
        raise SettingsError(f"{path} holds {secrets[0]} and others may read it", hint=f"chmod 600 '{path}'")
    return flat


def _checked(settings: Settings) -> Settings:
    """Refuse values that no type can refuse."""
    choices = {
        "embedder": ("local", "gemini", "none"),
        "log_format": ("auto", "console", "json"),
        "log_level": ("debug", "info", "warning", "error"),
    }
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise SettingsError(
                f"CEMS_{name.upper()} must be one of {', '.join(allowed)}, not {getattr(settings, name)!r}"
            )
    for kind in settings.context_observation_types:
        if kind not in KINDS:
            raise SettingsError(
                f"CEMS_CONTEXT_OBSERVATION_TYPES: there is no kind {kind!r}, only {', '.join(KINDS)}"
            )
    for name in ("database_url", "reader_database_url"):
        if _ambiguous(getattr(settings, name)):
            raise SettingsError(
                f"CEMS_{name.upper()}: the user or password holds a character that must be percent-encoded",
                hint="write @ as %40, / as %2F, : as %3A",
            )
    if settings.embedding_dimensions > 3072:
        raise SettingsError(
            f"CEMS_EMBEDDING_DIMENSIONS is {settings.embedding_dimensions}; the models give at most 3,072"
        )
    return settings


def _ambiguous(url: str) -> bool:
    """Whether part of a password would be taken for a host or a port, and so be shown in errors."""
    place = url.partition("://")[2].partition("?")[0]
    before, at, _ = place.rpartition("@")
    return (bool(at) and any(c in before for c in "@/")) or before.count(":") > 1
