"""From the name of a configuration to a validated Config, or to all that is wrong with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from membudget.config.models import Config
from membudget.config.source import MAX_FILE_BYTES, Source, printable, read_source
from membudget.config.suggest import did_you_mean
from membudget.config.yaml_text import Document, read_yaml
from membudget.errors import ConfigError, Problem, UsageError

if TYPE_CHECKING:
    from pydantic import ValidationError

SUFFIX = ".yaml"


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration, and where in its file each key stands."""

    config: Config
    file: str
    """The name the file goes by in messages."""
    positions: dict[tuple[str | int, ...], tuple[int, int]]
    """Line and column, from 1, of each key ("loss", "kl", "chunk") and item of a list (..., "groups", 0)."""

    @property
    def name(self) -> str:
        """What to call the run: its name, else that of the file."""
        return self.config.name or printable(Path(self.file).stem)


def load(path: str | Path) -> LoadedConfig:
    """Read a configuration file. Raises ConfigError with every problem in it."""
    return _parse(read_source(path))


def load_config(path: str | Path) -> Config:
    """Read a configuration file, without the positions. Raises ConfigError with every problem in it."""
    return load(path).config


def parse(text: str, file: str) -> LoadedConfig:
    """Read a configuration from a text that goes by the name `file`. Raises ConfigError."""
    if len(text) > MAX_FILE_BYTES:
        message = f"is longer than {MAX_FILE_BYTES:,} characters, the most a configuration may have"
        raise ConfigError([Problem(file, 0, 0, message)])
    return _parse(Source(file, text.removeprefix("\ufeff")))


def parse_config(text: str, file: str) -> Config:
    """Read a configuration from a text, without the positions. Raises ConfigError."""
    return parse(text, file).config


def _parse(source: Source) -> LoadedConfig:
    from pydantic import ValidationError

    document = read_yaml(source)
    if not document.refused and not isinstance(document.data, dict):
        raise ConfigError([source.problem((0, 0), _top_text(document.data))])
    try:
        config = Config.model_validate(document.data)
    except ValidationError as error:
        raise _refusal(source, document, error) from None
    if document.problems or document.empty:
        raise _refusal(source, document, None)
    return LoadedConfig(config, source.file, document.keys)


def _refusal(source: Source, document: Document, error: ValidationError | None) -> ConfigError:
    # Only a failing run needs the texts.
    from membudget.config.messages import all_problems

    return ConfigError(all_problems(source, document, error))


def _top_text(data: object) -> str:
    required = ", ".join(name for name, field in Config.model_fields.items() if field.is_required())
    if data is None:
        return f"is empty; a configuration has at least the sections {required}"
    kind = "a list" if isinstance(data, list) else "a single value"
    return f"holds {kind}; a configuration is made of sections, at least {required}"


def profiles_folder() -> Path:
    """Where the configurations that come with the package are: in a wheel inside it, in a clone beside it."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_profiles"
    return installed if installed.is_dir() else package.parent / "profiles"


def profile_names() -> list[str]:
    """Names of the configurations that come with the package, without the suffix."""
    return sorted(path.stem for path in profiles_folder().glob(f"*{SUFFIX}"))


def find_config(argument: str) -> Path:
    """The file a CONFIG argument means: a path that exists, or a profile's name, with or without .yaml.

    Raises UsageError naming what is nearest when it is neither.
    """
    if argument and os.path.lexists(argument):
        return Path(argument)
    names = profile_names()
    if argument.removesuffix(SUFFIX) in names:
        return profiles_folder() / f"{argument.removesuffix(SUFFIX)}{SUFFIX}"
    raise UsageError(f'no configuration "{printable(argument, 200)}"{_nearest_text(argument, names)}')


def _nearest_text(argument: str, profiles: list[str]) -> str:
    folder, name = os.path.split(argument)
    try:
        entries = os.listdir(folder or ".")
    except (OSError, ValueError):
        return f": the folder {printable(folder, 200)} does not exist"
    files = [os.path.join(folder, entry) for entry in entries if entry.endswith((SUFFIX, ".yml"))]
    known = f"; profiles that ship with this tool: {', '.join(profiles)}" if profiles else ""
    candidates = [*profiles, *(f"{profile}{SUFFIX}" for profile in profiles), *files]
    return did_you_mean(argument if name else "", [printable(c, 200) for c in candidates]) + known
