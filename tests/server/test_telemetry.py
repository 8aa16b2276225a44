"""OpenTelemetry: what a collector is sent of a server's work."""

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.collector import Collector
from tests.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "telemetry.md"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SCRIPT = """\
== turn
text: I look.
tool: bash {"command": "env; echo secret-word"}
tool: read {"filePath": "gone.txt"}
usage: input=100 output=20

== turn
text: Done, with a secret-word.
usage: input=120 output=5

== title
text: A name
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


def test_a_turn_is_one_trace_with_its_steps_model_calls_and_tools(collector, serve) -> None:
    served = serve(script=SCRIPT, environment={**collector.environment, "INSTAR_TRUST": "all"})
    session = served.session(title="named")
    answered = served.ask(session, "look, secret-word").json()
    turn = collector.one("invoke_agent build")
    first, second = collector.named("step")
    bash, read = collector.one("execute_tool bash"), collector.one("execute_tool read")
    asked, again = collector.named("chat test")
    assert turn.parent == ""
    assert {span.trace for span in collector.spans} == {turn.trace}
    assert [first.parent, second.parent] == [turn.id, turn.id]
    assert [asked.parent, bash.parent, read.parent, again.parent] == [first.id, first.id, first.id, second.id]
    for span, above in ((first, turn), (second, turn), (asked, first), (bash, first), (again, second)):
        assert above.start <= span.start <= span.end <= above.end
    assert asked.end <= bash.start
    assert turn.said["gen_ai.conversation.id"] == session
    asked_id = answered["info"]["parentID"]
    assert turn.said["instar.message.id"] == asked_id
    # Another worker that goes on with the same prompt finds the same trace.
    assert turn.trace == hashlib.sha256(asked_id.encode()).hexdigest()[:32]
    assert bash.said["gen_ai.tool.name"] == "bash"
    assert (bash.failed, read.failed, read.said["error.type"]) == (False, True, "tool_error")
    assert asked.said["gen_ai.provider.name"] == "scripted"
    assert asked.said["gen_ai.usage.input_tokens"] == 100
    assert asked.said["gen_ai.response.finish_reasons"] == ["tool-calls"]
    assert collector.resource["service.name"] == "instar"
    served.stop()
    assert "secret-word" not in str(collector.spans)


def test_a_prompt_joins_the_trace_of_its_request_and_so_does_the_sub_agent_that_works_for_it(
    collector, serve
) -> None:
    script = """\
== turn
tool: task {"description": "look", "prompt": "child work", "subagent_type": "general"}
== when "child work"
text: found it
== turn
text: done
"""
    served = serve(script=script, environment={**collector.environment, "INSTAR_TRUST": "all"})
    session = served.session(title="named")
    served.http.headers["traceparent"] = PARENT
    served.ask(session, "look")
    turn, child = collector.one("invoke_agent build"), collector.one("invoke_agent general")
    _, trace, span, _ = PARENT.split("-")
    assert (turn.trace, turn.parent) == (trace, span)
    assert (child.trace, child.parent) == (trace, collector.one("execute_tool task").id)
    # What is no traceparent is ignored, as the standard says. A title belongs to the prompt that it is made of.
    served.http.headers["traceparent"] = "00-" + "0" * 32 + "-b7ad6b7169203331-01"
    served.ask(served.session(), "done?")
    served.stop()
    (last,) = [one for one in collector.named("invoke_agent build") if one.id != turn.id]
    assert (last.parent, last.trace != trace) == ("", True)
    (title,) = [one for one in collector.named("chat test") if one.said["instar.cause"] == "title"]
    assert (title.trace, title.parent) == (last.trace, last.id)


@pytest.mark.slow
def test_another_process_that_takes_a_waiting_prompt_up_answers_it_in_its_trace(collector, serve) -> None:
    script = """\
== turn
tool: bash {"command": "sleep 60"}
== turn
text: one
== turn
text: two
"""
    environment = {**collector.environment, "INSTAR_TRUST": "all"}
    first = serve(script=script, environment=environment)
    session = first.session(title="named")
    first.ask(session, "first", "prompt_async")
    wait_until(lambda: first.http.get("/session/status").json())
    body = {"prompt": {"text": "waiting"}, "delivery": "queue"}
    first.http.post(f"/api/session/{session}/prompt", json=body, headers={"traceparent": PARENT})
    first.stop(signal.SIGKILL)
    second = serve(script=script, environment=environment)
    second.ask(session, "go on", "prompt_async")
    wait_until(lambda: [one for one in collector.spans if one.trace == PARENT.split("-")[1]])
    (turn,) = [one for one in collector.named("invoke_agent build") if one.trace == PARENT.split("-")[1]]
    assert turn.worker.endswith(f":{second.process.pid}")


def test_metrics_have_the_conventions_names_and_those_of_the_servers_own_metrics(collector, serve) -> None:
    served = serve(script=SCRIPT, environment={**collector.environment, "INSTAR_TRUST": "all"})
    served.ask(served.session(title="named"), "look")
    text = served.http.get("/instar/metrics").text
    served.stop()
    said = {"gen_ai_provider_name": "scripted", "gen_ai_request_model": "test"}
    assert collector.figure("gen_ai.client.token.usage", gen_ai_token_type="input", **said) == 220
    assert collector.figure("gen_ai.client.token.usage", gen_ai_token_type="output", **said) == 25
    assert collector.figure("gen_ai.client.operation.duration", gen_ai_operation_name="chat") > 0
    assert collector.figure("instar.tool.calls", tool="read", result="error") == 1
    assert collector.figure("instar.turns") == 1
    assert collector.figure("instar.steps") == 2
    assert collector.figure("instar.sessions.busy") == 0
    assert collector.figure("instar.model.calls", model="scripted/test", origin="person") == 2
    names = {name for name, _ in collector.figures}
    lines = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    known = {line.removesuffix("_total").replace("_", ".") for line in lines}
    assert {name for name in names if name.startswith("instar.")} <= known
    rows = [
        line.split("|")[1] for line in PAGE.read_text().partition("## Metrics")[2].splitlines() if "|" in line
    ]
    told = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    assert names <= told
    assert told - names == {"instar.hook.runs", "instar.evolutions", "instar.unpriced.calls"}


@pytest.mark.slow
def test_words_are_sent_where_they_are_asked_for_and_not_otherwise(collector, serve) -> None:
    asks = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    served = serve(script=SCRIPT, environment={**collector.environment, **asks, "INSTAR_TRUST": "all"})
    served.ask(served.session(title="named"), "look, secret-word")
    served.stop()
    asked = json.loads(collector.one("invoke_agent build").said["gen_ai.input.messages"])
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "look, secret-word"}]}]
    bash = collector.one("execute_tool bash").said
    assert "secret-word" in bash["gen_ai.tool.call.arguments"]
    assert "secret-word" in bash["gen_ai.tool.call.result"]
    answered = json.loads(collector.named("chat test")[-1].said["gen_ai.output.messages"])
    assert answered[0]["parts"][0]["content"] == "Done, with a secret-word."


def test_the_collectors_password_is_sent_to_it_and_not_told_to_the_models_programs(collector, serve) -> None:
    given = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20letmein"}
    served = serve(script=SCRIPT, environment={**collector.environment, **given, "INSTAR_TRUST": "all"})
    session = served.session(title="named")
    served.ask(session, "look")
    collector.one("invoke_agent build")
    assert collector.headers[0]["authorization"] == "Bearer letmein"
    told = served.http.get(f"/session/{session}/message").text
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in told
    assert "letmein" not in told


def test_a_prompt_that_waits_in_the_queue_keeps_its_trace(collector, serve, tmp_path) -> None:
    mark = tmp_path / "project" / "mark"
    wait = f"until [ -e {mark} ]; do sleep 0.02; done"
    script = f"== turn\ntool: bash {json.dumps({'command': wait})}\n== turn\ntext: one\n== turn\ntext: two\n"
    served = serve(script=script, environment={**collector.environment, "INSTAR_TRUST": "all"})
    session = served.session(title="named")
    served.ask(session, "first", "prompt_async")
    body = {"prompt": {"text": "second"}, "delivery": "queue"}
    answered = served.http.post(f"/api/session/{session}/prompt", json=body, headers={"traceparent": PARENT})
    assert answered.status_code == 200, answered.text
    mark.touch()
    wait_until(lambda: len(collector.named("invoke_agent build")) == 2)
    first, second = collector.named("invoke_agent build")
    assert first.trace != second.trace == PARENT.split("-")[1]


def test_runs_of_hooks_and_waiting_for_a_person_stand_at_the_tool_that_they_are_about(
    collector, serve, tmp_path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    rule = {"type": "command", "command": "true", "name": "look"}
    told = {"hooks": {name: [{"hooks": [rule]}] for name in ("UserPromptSubmit", "PostToolUse")}}
    (project / "instar.json").write_text(json.dumps({**told, "permission": {"bash": "ask"}}))
    script = '== turn\ntool: bash {"command": "true"}\n== turn\ntext: done\n'
    served = serve(script=script, environment={**collector.environment, "INSTAR_TRUST": "all"})
    session = served.session(title="named")
    served.ask(session, "go", "prompt_async")
    (asked,) = wait_until(lambda: served.http.get("/permission").json())
    served.http.post(f"/permission/{asked['id']}/reply", json={"reply": "once"})
    turn, step = collector.one("invoke_agent build"), collector.named("step")[0]
    prompted, after = collector.one("hook UserPromptSubmit"), collector.one("hook PostToolUse")
    permission = collector.one("permission bash")
    assert (prompted.parent, after.parent) == (turn.id, collector.one("execute_tool bash").id)
    assert prompted.said["instar.hook.rule"].startswith("look (")
    assert permission.said["instar.reply"] == "once"
    assert permission.trace == turn.trace
    assert permission.parent in {step.id, collector.one("execute_tool bash").id}
    assert collector.figure("instar.hook.runs", event="PostToolUse") in (0, 1)


@pytest.mark.slow
def test_evolves_gate_stands_at_the_call_with_its_stages(collector, serve, tmp_path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "prompts").mkdir(parents=True)
    (workspace / "prompts" / "chat.md").write_text("Be kind.\n")
    wanted = {"prompt": "chat.md", "content": "Be brief.\n"}
    script = f"== turn\ntool: evolve_prompt_write {json.dumps(wanted)}\n== turn\ntext: done\n"
    environment = {**collector.environment, "INSTAR_TRUST": "all", "INSTAR_WORKSPACE": str(workspace)}
    served = serve(script=script, environment=environment)
    served.ask(served.session(title="named"), "go")
    gate = collector.one("gate")
    assert gate.parent == collector.one("execute_tool evolve_prompt_write").id
    assert gate.said["instar.files"] == ["prompts/chat.md"]
    stages = [span for span in collector.spans if span.parent == gate.id]
    assert stages
    assert all(span.name.startswith("gate ") for span in stages)
    served.stop()
    assert collector.figure("instar.evolutions", outcome="installed") == 1


def test_a_model_call_that_is_tried_again_and_one_that_fails_are_spans_with_their_error(
    collector, serve
) -> None:
    script = (
        "== turn\nerror: 429 slow down retry-after=0 times=1\ntext: hi\n== turn\nerror: 401 who are you\n"
    )
    served = serve(script=script, environment={**collector.environment, "INSTAR_TRUST": "all"})
    session = served.session(title="named")
    served.ask(session, "go")
    served.ask(session, "again")
    served.stop()
    refused, answered, failed = collector.named("chat test")
    assert [one.said.get("error.type") for one in (refused, answered, failed)] == ["429", None, "401"]
    good, bad = collector.named("invoke_agent build")
    assert (good.failed, bad.failed) == (False, True)
    assert bad.said["error.type"] == "ProviderAuthError"
    assert refused.parent == answered.parent


CODE = """
import sys
for name in {missing!r}: sys.modules[name] = None
from instar.cli import main
main(["run", "--print-logs", "-m", "scripted/echo", "hello"])
"""


def run(clean_environment, tmp_path, missing=(), **variables):
    code = CODE.format(missing=list(missing))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean_environment, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("missing", "variables", "why"),
    [
        (["opentelemetry.sdk"], {}, "OpenTelemetry is not installed: pip install 'instar[otel]'"),
        ([], {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "instar knows http/protobuf, grpc"),
        (
            ["opentelemetry.exporter.otlp.proto.grpc"],
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "pip install 'opentelemetry-exporter-otlp-proto-grpc'",
        ),
        ([], {"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'"),
        ([], {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "max_queue_size must be a positive integer"),
    ],
)
def test_what_cannot_be_sent_is_said_in_the_log_and_the_turn_goes_on(
    collector, clean_environment, tmp_path, missing, variables, why
) -> None:
    done = run(clean_environment, tmp_path, missing, **collector.environment, **variables)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert why in done.stderr
    assert "Traceback" not in done.stderr
    assert collector.spans == []


def test_a_run_is_sent_before_it_ends_and_takes_up_the_trace_of_its_environment(
    collector, clean_environment, tmp_path
) -> None:
    done = run(clean_environment, tmp_path, **collector.environment, TRACEPARENT=PARENT)
    assert done.stdout == "hello\n"
    assert collector.one("invoke_agent build").trace == PARENT.split("-")[1]


@pytest.mark.parametrize("variable", ["OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"])
def test_sending_is_switched_off_as_the_standard_says(
    collector, clean_environment, tmp_path, variable
) -> None:
    off = {variable: "true" if variable == "OTEL_SDK_DISABLED" else "none"}
    assert run(clean_environment, tmp_path, **collector.environment, **off).stdout == "hello\n"
    assert collector.spans == []


@pytest.mark.parametrize("whose", ["person", "project"])
def test_a_setting_of_the_persons_switches_it_on_and_one_of_a_strange_project_does_not(
    clean_environment, tmp_path, whose
) -> None:
    folder = tmp_path if whose == "project" else Path(clean_environment["XDG_CONFIG_HOME"]) / "instar"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "instar.json").write_text(json.dumps({"experimental": {"openTelemetry": True}}))
    done = run(clean_environment, tmp_path, ["opentelemetry.sdk"])
    assert done.stdout == "hello\n"
    assert ("telemetry is off" in done.stderr) is (whose == "person")


@pytest.mark.slow
def test_a_collector_that_is_not_there_delays_the_end_by_no_more_than_two_seconds(
    clean_environment, tmp_path
) -> None:
    begun = time.monotonic()
    done = run(clean_environment, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert time.monotonic() - begun < 2 + 3


def test_a_turn_that_is_aborted_ends_its_spans_and_says_so(collector, serve) -> None:
    script = "== turn\ntext: I begin.\ndelay: 60s\ntext: never\n"
    served = serve(script=script, environment={**collector.environment, "INSTAR_TRUST": "all"})
    session = served.session(title="named")
    served.ask(session, "go", "prompt_async")
    wait_until(lambda: "step-start" in served.http.get(f"/session/{session}/message").text)
    served.http.post(f"/session/{session}/abort")
    turn, call = collector.one("invoke_agent build"), collector.one("chat test")
    assert (call.said["error.type"], turn.said["error.type"]) == ("aborted", "MessageAbortedError")
    assert call.parent == collector.one("step").id
    served.stop()
    assert collector.figure("instar.sessions.busy") == 0
