import pytest

from instar.server.access import origins


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("https://app.example", "https://app.example"),
        (" HTTPS://App.Example:8443/ ", "https://app.example:8443"),
        ("http://[::1]:5173", "http://[::1]:5173"),
        ("tauri://localhost", "tauri://localhost"),
    ],
)
def test_an_origin_is_taken_as_a_browser_writes_it(given, found):
    assert origins([given]) == {found}


@pytest.mark.parametrize(
    "given",
    [
        "*",
        "null",
        "",
        "app.example",
        "https://",
        "https://a/path",
        "https://a?b",
        "https://u@a",
        "https://*.a",
    ],
)
def test_what_is_no_origin_is_refused(given):
    with pytest.raises(ValueError, match="no origin"):
        origins([given])
