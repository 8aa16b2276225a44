import logging
import stat

import pytest

from instar.cli import door, log_file


@pytest.fixture(autouse=True)
def _own_logging():
    root = logging.getLogger()
    before, level, own = root.handlers[:], root.level, logging.getLogger("instar").level
    yield
    for handler in root.handlers:
        if handler not in before:
            handler.close()
    root.handlers[:] = before
    root.setLevel(level)
    logging.getLogger("instar").setLevel(own)


def test_a_line_is_logfmt(tmp_path):
    path = tmp_path / "deep" / "instar.log"
    door.start_log(path, "INFO", printed=False)
    assert not path.exists()
    logging.getLogger("instar.x").info('said "%s"\nsession=%s', "hi", "ses_1")
    (line,) = path.read_text().splitlines()
    assert line.startswith("time=")
    assert " level=info logger=instar.x " in line
    assert line.endswith(r'msg="said \"hi\"\nsession=ses_1"')
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(("level", "kept"), [("DEBUG", 4), ("INFO", 3), ("WARN", 2), ("ERROR", 1)])
def test_a_level_leaves_out_what_is_below(tmp_path, level, kept):
    door.start_log(tmp_path / "log", level, printed=False)
    logger = logging.getLogger("instar.x")
    for say in (logger.debug, logger.info, logger.warning, logger.error):
        say("line")
    assert len((tmp_path / "log").read_text().splitlines()) == kept


@pytest.mark.parametrize(("level", "traced"), [("DEBUG", True), ("INFO", False)])
def test_a_traceback_is_printed_on_stderr_only_with_debug(tmp_path, capsys, level, traced):
    door.start_log(tmp_path / "log", level, printed=True)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("instar.x").exception("failed")
    said = capsys.readouterr().err
    assert 'error="ValueError: broken"' in said
    assert ("Traceback" in said) is traced
    assert said.count("\n") == 1
    assert not (tmp_path / "log").exists()


def test_a_full_file_is_put_away(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "LOG_FILE_SIZE", 500)
    door.start_log(tmp_path / "log", "INFO", printed=False)
    for number in range(60):
        logging.getLogger("instar.x").info("line %d of many that fill a file", number)
    assert {path.name for path in tmp_path.iterdir()} == {"log", "log.1", "log.2", "log.3"}


def test_a_log_that_cannot_be_written_costs_only_the_log(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    door.start_log(tmp_path / "file" / "log", "INFO", printed=False)
    logging.getLogger("instar.x").error("lost")
    assert capsys.readouterr().err == ""
