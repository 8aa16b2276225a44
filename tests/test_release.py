"""The tables of the page that says where instar was installed: rows are put in, replaced and kept."""

from pathlib import Path

import pytest
from release import check, extras, page, wheels

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("head", [check.HEAD, wheels.HEAD, extras.HEAD], ids=lambda head: head[0])
def test_the_page_has_each_table_that_is_written_into_it(head: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / "reference" / "platforms.md").read_text("utf-8")
    assert f"{page.table(head, [])}\n" in text


def test_a_row_takes_the_place_of_the_one_with_its_keys_and_all_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "ROOT", tmp_path)
    written = tmp_path / "docs" / "reference" / "platforms.md"
    written.parent.mkdir(parents=True)
    head = ("system", "way", "demo")
    written.write_text(f"Before.\n\n{page.table(head, [])}\n\nAfter.\n")
    page.record(head, [("Debian 12", "pip", "no"), ("Debian 12", "uv", "yes")], 2)
    page.record(head, [("Debian 13", "pip", "yes"), ("Debian 12", "pip", "yes")], 2)
    rows = "| Debian 12 | pip | yes |\n| Debian 12 | uv | yes |\n| Debian 13 | pip | yes |"
    assert written.read_text() == f"Before.\n\n{page.table(head, [])}\n{rows}\n\nAfter.\n"
    with pytest.raises(page.Failed, match=r"no page platforms\.md"):
        page.record(("another", "table"), [("x", "y")], 1)
