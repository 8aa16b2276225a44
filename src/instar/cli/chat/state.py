"""What a chat keeps for the next one: the models that were chosen, and how it looks."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

Theme = Literal["auto", "dark", "light", "plain"]

_MODELS: Final = 10
"""Models that are remembered."""


class _Kept(msgspec.Struct):
    models: list[str] = []
    theme: Theme = "auto"


class ChatState:
    """`models` are ``PROVIDER/MODEL``, last chosen first; a file that cannot be read or written is as none."""

    def __init__(self, path: Path) -> None:
        self._path, self._kept = path, _Kept()
        with suppress(OSError, msgspec.DecodeError):
            self._kept = msgspec.json.decode(path.read_bytes(), type=_Kept)

    @property
    def models(self) -> list[str]:
        return self._kept.models

    @property
    def theme(self) -> Theme:
        return self._kept.theme

    @property
    def no_color(self) -> bool:
        return self.theme == "plain" or bool(os.environ.get("NO_COLOR"))

    def use(self, model: str) -> None:
        """Keep that a model was chosen."""
        self._kept.models = [model, *(one for one in self.models if one != model)][:_MODELS]
        self._save()

    def look(self, theme: Theme) -> None:
        """Keep how the chat looks."""
        self._kept.theme = theme
        self._save()

    def _save(self) -> None:
        with suppress(OSError):
            self._path.write_bytes(msgspec.json.encode(self._kept))
