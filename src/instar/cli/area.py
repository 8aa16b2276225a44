"""The rows at the bottom of a terminal that are written over while a turn goes on, and that leave no trace."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text


class Area:
    """Rows below what was printed. What is printed meanwhile must `erase` them first."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._cells: list[int] = []

    def draw(self, rows: Sequence[Text]) -> None:
        """Show rows in place of those that stand there, each cut to the terminal's width."""
        self.erase()
        for at, row in enumerate(rows):
            shown = row.copy()
            shown.truncate(max(1, self._console.width - 1), overflow="ellipsis")
            self._cells.append(shown.cell_len)
            self._console.print(shown, end="\n" if at + 1 < len(rows) else "")
        self._console.file.flush()

    def erase(self) -> None:
        """Take the rows away. A terminal that became narrower has wrapped them: all that they take now is cleared."""
        if self._cells:
            width = max(1, self._console.width)
            up = sum(max(1, -(-cells // width)) for cells in self._cells) - 1
            self._console.file.write(f"\r\x1b[{up}A\x1b[J" if up else "\r\x1b[J")
            self._cells.clear()
