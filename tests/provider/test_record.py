"""A record of requests: the bytes that were sent, what they cost, and no key; nobody else may read it."""

import json
import stat

import msgspec
import pytest
from provider_words import KEY, make_request, user

from instar.provider.openai import OpenAI
from instar.provider.protocol import Finish, ProviderError

CHUNKS = [
    'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n',
    'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,'
    '"prompt_tokens_details":{"cached_tokens":4}}}\n\n',
    "data: [DONE]\n\n",
]


@pytest.fixture
async def record(tmp_path):
    file = tmp_path / "requests.jsonl"
    adapter = OpenAI({"INSTAR_LOG_REQUESTS": str(file)})
    yield adapter, file
    await adapter.close()


async def collect(adapter, request):
    return [delta async for delta in adapter.stream(request)]


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_a_record_holds_the_very_bytes_that_were_sent_and_what_they_cost(server, record):
    adapter, file = record
    model = server.plan(*CHUNKS)
    deltas = await collect(adapter, make_request(model, user("é")))
    (line,) = lines(file)
    assert f'"body":{server.requests(model)[-1]["raw"]}' in file.read_text()
    assert (line["purpose"], line["protocol"], line.get("error")) == ("turn", model.protocol, None)
    assert line["tokens"] == msgspec.to_builtins(deltas[-1].tokens)
    assert line["tokens"]["cache"]["read"] == 4
    assert line["took"] >= 0


async def test_nobody_but_the_owner_reads_a_record_and_no_key_is_in_it(server, record):
    adapter, file = record
    file.touch(0o644)
    model = server.plan(*CHUNKS)
    address = model.url.replace("http://", "http://ada:pass@", 1) + "?token=t0p"
    await collect(adapter, make_request(model, user("hi")))
    await collect(adapter, make_request(msgspec.structs.replace(model, url=address), user("hi")))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert KEY not in text
    assert "pass" not in text
    assert "t0p" not in text


async def test_a_call_that_failed_is_recorded_as_failed(server, record):
    adapter, file = record
    with pytest.raises(ProviderError):
        await collect(adapter, make_request(server.plan(status=500), user("hi")))
    (line,) = lines(file)
    assert "tokens" not in line
    assert "500" in line["error"]


async def test_a_record_that_cannot_be_written_costs_no_call(server, tmp_path, caplog):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for place in (tmp_path, tmp_path / "no" / "folder", tmp_path / "link"):
        adapter = OpenAI({"INSTAR_LOG_REQUESTS": str(place)})
        deltas = await collect(adapter, make_request(server.plan(*CHUNKS), user("hi")))
        await adapter.close()
        assert isinstance(deltas[-1], Finish)
    assert caplog.text.count("request not recorded") == 3
    assert not (tmp_path / "elsewhere").exists()
