"""What is opened is what was looked at."""

from pathlib import Path

import pytest

from instar.api.request import Invalid
from instar.files.place import locate, whole


def test_a_link_that_takes_a_files_place_after_it_was_looked_at_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("outside")
    (inside / "file").write_text("inside")
    looked_at = locate(inside, "file")
    looked_at.unlink()
    looked_at.symlink_to(tmp_path / "secret")
    with pytest.raises(Invalid, match="cannot read"):
        whole(looked_at)
