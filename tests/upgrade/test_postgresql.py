"""What earlier versions left on a PostgreSQL server is opened, listed and continued."""

from pathlib import Path

import pytest
from tests import postgresql
from tests.upgrade.left import FOLDER, QUESTION, Person

DUMPS = sorted(FOLDER.glob("*.sql"))


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name.partition(".")[0])
def test_a_database_on_a_server_is_continued(
    dump: Path, tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    server = postgresql.cluster()
    url = server.database()
    schema = url.rpartition("%3D")[2]
    server.shell(f"psql --quiet --set ON_ERROR_STOP=1 -c 'DROP SCHEMA {schema}' postgres")
    text = dump.read_text().replace("kept.", f"{schema}.").replace("SCHEMA kept", f"SCHEMA {schema}")
    (server.folder / "restored.sql").write_text(text)
    server.shell("psql --quiet --set ON_ERROR_STOP=1 -f restored.sql postgres")
    person = Person(tmp_path, {**clean_environment, "INSTAR_DATABASE": url})
    person.project.mkdir(parents=True)
    assert set(person.sessions()) == {QUESTION}
    person.goes_on()
