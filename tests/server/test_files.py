"""A directory's files through HTTP: lists, contents, searches, and nothing outside of it."""

import base64
import os
import subprocess
from pathlib import Path

import pytest
from tests.server.asking import Asking

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAACAAFUok9dAAAAAElFTkSuQmCC"
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what may stand in one, and a secret beside it."""
    root = tmp_path_factory.mktemp("files")
    (root / "secret.txt").write_text("hidden needle\n")
    folder = root / "tree"
    (folder / "src" / "deep").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    (folder / ".gitignore").write_text("built/\n")
    (folder / "built").mkdir()
    (folder / "built" / "out.txt").write_text("needle\n")
    (folder / "notes.txt").write_text("\nbuy milk\nbuy needle needle\n\n")
    (folder / "src" / "app.py").write_text("def main():\n    return 'milk'\n")
    (folder / "src" / "deep" / "more.txt").write_text("more\n")
    (folder / "dot.png").write_bytes(PNG)
    (folder / "latin.txt").write_bytes(b"caf\xe9 latin\n")
    (folder / "link.txt").symlink_to(root / "secret.txt")
    (folder / "linked").symlink_to(folder / "src")
    (folder / "out").symlink_to(root)
    os.mkfifo(folder / "pipe")
    return folder


@pytest.fixture
def ask(shared, tree):
    return Asking(shared, tree)


def test_the_places_of_a_directory_are_told(ask, tree, shared):
    home = shared.directory.parent
    assert ask.get("/path") == {
        "home": str(home),
        "state": str(home / "state" / "instar"),
        "config": str(home / "config" / "instar"),
        "worktree": str(tree),
        "directory": str(tree),
    }


def test_a_folder_lists_its_files_and_folders_and_says_what_git_ignores(ask, tree):
    found = {node["path"]: node for node in ask.get("/file", path="")}
    assert list(found) == [
        ".git/", "built/", "src/", ".gitignore", "dot.png", "latin.txt", "notes.txt",
    ]  # fmt: skip
    assert [path for path, node in found.items() if node["ignored"]] == ["built/"]
    assert found["src/"] == {
        "name": "src",
        "path": "src/",
        "absolute": str(tree / "src"),
        "type": "directory",
        "ignored": False,
    }
    assert [node["path"] for node in ask.get("/file", path="src")] == ["src/deep/", "src/app.py"]
    assert [node["path"] for node in ask.get("/file", path="linked")] == ["linked/deep/", "linked/app.py"]


@pytest.mark.parametrize(
    "path", ["notes.txt", "nothing", "..", "/etc", "out", "src/../../", "a\0b", "x" * 5000]
)
def test_what_is_no_folder_of_the_directory_is_not_listed(ask, path):
    assert ask.get("/file", 400, path=path)["name"] == "BadRequest"
    assert ask.get("/api/fs/list", 400, path=path)["_tag"] == "InvalidRequestError"


def test_a_text_is_read_without_blank_ends_and_other_bytes_in_base64(ask, tree):
    text = {"type": "text", "content": "buy milk\nbuy needle needle"}
    assert ask.get("/file/content", path="notes.txt") == text
    assert ask.get("/file/content", path=str(tree / "notes.txt")) == text
    assert ask.get("/file/content", path="no.txt") == {"type": "text", "content": ""}
    image = ask.get("/file/content", path="dot.png")
    assert base64.b64decode(image.pop("content")) == PNG
    assert image == {"type": "binary", "encoding": "base64", "mimeType": "image/png"}
    latin = ask.get("/file/content", path="latin.txt")
    assert (latin["type"], latin["mimeType"]) == ("binary", "text/plain")


@pytest.mark.parametrize(
    "path", ["link.txt", "../secret.txt", "/etc/passwd", "out/secret.txt", "src", "pipe", ".", "a\0b"]
)
def test_what_is_no_file_of_the_directory_is_not_read(ask, path):
    assert ask.get("/file/content", 400, path=path)["name"] == "BadRequest"


@pytest.mark.parametrize(
    "path", ["link.txt", "%2e%2e/secret.txt", "%2fetc/passwd", "out/secret.txt", "src", "pipe", "no"]
)
def test_what_is_no_file_of_the_directory_is_not_sent_either(ask, path):
    error = ask("GET", f"/api/fs/read/{path}", 400, "/api/fs/read/*")
    assert error["_tag"] == "InvalidRequestError"


def test_a_file_that_is_too_large_is_refused(ask, tree):
    with (tree / "large.bin").open("wb") as file:
        file.truncate(17 << 20)
    error = ask.get("/file/content", 400, path="large.bin")
    (tree / "large.bin").unlink()
    assert error["data"]["message"] == f"{tree / 'large.bin'} is larger than 16 MiB"


def test_a_file_is_sent_as_it_is_and_cannot_act_as_the_servers_page(ask, shared):
    answer = shared.http.get("/api/fs/read/src/app.py", params={"location[directory]": ask.directory})
    assert answer.text == "def main():\n    return 'milk'\n"
    assert answer.headers["content-security-policy"] == "sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_lines_that_match_come_in_ripgreps_form(ask):
    assert ask.get("/find", pattern="needle") == [
        {
            "path": {"text": "notes.txt"},
            "lines": {"text": "buy needle needle\n"},
            "line_number": 3,
            "absolute_offset": 10,
            "submatches": [
                {"match": {"text": "needle"}, "start": 4, "end": 10},
                {"match": {"text": "needle"}, "start": 11, "end": 17},
            ],
        }
    ]
    (latin,) = ask.get("/find", pattern="latin$")
    assert latin["lines"] == {"text": "caf\ufffd latin\n"}
    assert ask.get("/find", pattern="nothing like it") == []


def test_no_more_than_ten_lines_are_found(ask, tree):
    for number in range(3):
        (tree / f"many{number}.txt").write_text("again\n" * 9)
    assert len(ask.get("/find", pattern="again")) == 10
    for number in range(3):
        (tree / f"many{number}.txt").unlink()


def test_a_pattern_that_is_no_regular_expression_is_refused(ask):
    assert "regular expression" in ask.get("/find", 400, pattern="(")["data"]["message"]
    assert ask.get("/find", 400, pattern="a\0b")["name"] == "BadRequest"


FUZZY = [
    ({"query": "app"}, ["src/app.py"]),
    ({"query": "APP"}, ["src/app.py"]),
    ({"query": "dpmr"}, ["src/deep/more.txt"]),
    ({"query": "src"}, ["src/", "src/deep/", "src/app.py", "src/deep/more.txt"]),
    ({"query": "src", "dirs": "false"}, ["src/app.py", "src/deep/more.txt"]),
    ({"query": "src", "type": "directory"}, ["src/", "src/deep/"]),
    ({"query": "src", "limit": 1}, ["src/"]),
    ({"query": "", "type": "directory"}, ["/", "src/", "src/deep/"]),
    ({"query": "", "limit": 3}, ["dot.png", "latin.txt", "notes.txt"]),
    ({"query": "out.txt"}, []),
    ({"query": "zzz"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("query", "found"), FUZZY)
def test_names_are_found_by_some_of_their_letters(ask, query, found):
    assert ask.get("/find/file", **query) == found


def test_symbols_and_changed_files_and_references_are_empty_lists(ask):
    assert ask.get("/find/symbol", query="main") == []
    assert ask.get("/file/status") == []
    assert ask.get("/api/reference")["data"] == []


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/file", {}),
        ("/file/content", {}),
        ("/find", {}),
        ("/find/file", {}),
        ("/find/file", {"query": "a", "limit": 0}),
        ("/find/file", {"query": "a", "limit": 201}),
        ("/find/file", {"query": "a", "dirs": "x"}),
        ("/find/file", {"query": "a", "type": "link"}),
        ("/api/fs/find", {}),
        ("/api/fs/find", {"query": "a", "limit": "x"}),
    ],
)
def test_a_query_that_does_not_fit_is_refused(ask, path, query):
    ask.get(path, 400, **query)


def test_the_newer_routes_say_where_they_hold(ask, tree):
    location = ask.get("/api/location")
    assert location == {"directory": str(tree), "project": {"id": "global", "directory": str(tree)}}
    found = ask.get("/api/fs/find", query="app", limit=5)
    assert found == {"location": location, "data": [{"path": "src/app.py", "type": "file"}]}
    listed = ask.get("/api/fs/list", path="src")
    assert listed["data"] == [
        {"path": "src/deep/", "type": "directory"},
        {"path": "src/app.py", "type": "file"},
    ]
    assert ask.get("/api/fs/list", **{"location[directory]": f"{tree}/src"})["data"][1]["path"] == "app.py"


def test_names_that_are_not_utf_8_are_listed_and_found(ask, tree):
    odd = os.fsencode(tree) + b"/odd\xff.txt"
    Path(os.fsdecode(odd)).write_text("oddity\n")
    try:
        assert "odd\ufffd.txt" in [node["name"] for node in ask.get("/file", path="")]
        assert ask.get("/find/file", query="odd") == ["odd\ufffd.txt"]
        assert ask.get("/find", pattern="oddity")[0]["path"]["text"] == "odd\ufffd.txt"
    finally:
        Path(os.fsdecode(odd)).unlink()


@pytest.mark.slow
def test_a_folder_of_ten_thousand_files_is_listed_and_searched(ask, tree, shared):
    crowd = tree / "crowd"
    crowd.mkdir()
    for number in range(10_000):
        os.mknod(crowd / f"f{number}")
    # Held against the schema elsewhere: here that would take longer than all the rest.
    query = {"directory": str(tree), "path": "crowd"}
    assert len(shared.http.get("/file", params=query).json()) == 10_000
    assert ask.get("/find/file", query="f9999") == ["crowd/f9999"]
