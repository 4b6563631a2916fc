"""``python agent.py`` and ``axonkernel run``: what goes in, what comes out, who is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from axonkernel.audit.verify import verify
from lab import processes
from lab.agents import Project

pytestmark = pytest.mark.box

CLOSED: dict[str, Any] = {"fs": {"write": ["./out"]}}
#: A tool that leaves a mark; the policy has a person asked before it runs.
MARK = """
@agent.tool("mark")
def mark(name: str) -> str:
    open("out/" + name, "w").close()
    return "made"
"""
ASKING: dict[str, Any] = {**CLOSED, "tools": {"mark": "escalate"}}
MADE = "return await kernel.call('mark', name='m')"
PROMPT = "[no]: "


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "home")


# -- what goes in and comes out ---------------------------------------------------------


def test_words_are_the_prompt(project: Project) -> None:
    """The handler gets the command line, and so does the script's own sys.argv."""
    project.agent(CLOSED, "return [request, sys.argv[1:]]")
    assert project.run_agent("say", "hi").value == [{"prompt": "say hi"}, ["say", "hi"]]


def test_run_passes_a_request_as_it_is(project: Project) -> None:
    """``--request`` is any JSON; words are a prompt; both at once is wrong usage."""
    project.agent(CLOSED, "return request", end="")
    given = {"prompt": "é\n", "n": [1, None]}
    ended = project.axonkernel("run", "--agent", "agent.py", "--request", json.dumps(given))
    assert ended.value == given
    assert project.axonkernel("run", "--agent", "agent.py", "a", "b").value == {"prompt": "a b"}
    for words in (["--request", "{}", "word"], ["--request", "{nonsense"]):
        ended = project.axonkernel("run", "--agent", "agent.py", *words)
        assert (ended.code, ended.out) == (2, "")


def test_run_takes_the_agent_it_finds_once_it_is_trusted(project: Project) -> None:
    """axon.config.py runs after ``trust``, and only then; changed, it must be read again."""
    project.agent(CLOSED, "return 'ran'", name="axon.config.py", end="")
    refused = project.axonkernel("run")
    assert (refused.code, refused.out) == (78, "") and "axonkernel trust" in refused.err
    assert project.axonkernel("trust").code == 0
    assert project.axonkernel("run").out == "ran\n"
    project.agent(CLOSED, "return 'else'", name="axon.config.py", end="")
    assert (project.axonkernel("run").code, project.axonkernel("run").out) == (78, "")


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        ("'text'", "text\n"),
        ("None", ""),
        ("{'a': [1, 'é']}", '{"a": [1, "é"]}\n'),
        ("True", "true\n"),
        ("'half \\ud800 pair'", "half \\ud800 pair\n"),
        ("{'path': __import__('pathlib').Path('/x')}", '{"path": "/x"}\n'),
    ],
)
def test_what_the_handler_returns_is_printed(project: Project, returned: str, shown: str) -> None:
    """Text as it is, other data as JSON, nothing for None; on stdout, where nothing else is."""
    project.agent(CLOSED, f"return {returned}")
    ended = project.run_agent()
    assert (ended.code, ended.out) == (0, shown)


def test_a_denied_call_that_nobody_catches_is_exit_1(project: Project) -> None:
    """One line says what was denied; neither a rule nor a traceback is in it."""
    project.agent({**CLOSED, "tools": {"mark": False}}, MADE, before=MARK)
    for ended in (project.run_agent(), project.axonkernel("run", "--agent", "agent.py")):
        assert (ended.code, ended.out) == (1, "")
        assert "denied (tool)" in ended.err and "Traceback" not in ended.err
        assert "$.tools" not in ended.err
    assert not (project.folder / "out" / "m").exists()


def test_a_handler_that_raises_is_exit_1(project: Project) -> None:
    """The author sees where in their own code."""
    project.agent(CLOSED, "raise ValueError('of the handler')")
    ended = project.run_agent()
    assert (ended.code, ended.out) == (1, "")
    assert "ValueError: of the handler" in ended.err and "agent.py" in ended.err


@pytest.mark.parametrize(
    ("body", "code"),
    [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", 137), ("os.abort()", 134)],
)
def test_an_agent_that_ends_itself_ends_with_its_own_code(
    project: Project, body: str, code: int
) -> None:
    """The supervisor survives it, and records the end."""
    project.agent(CLOSED, body)
    assert project.run_agent().code == code
    assert project.records()[-1]["kind"] == "box.end"
    assert project.records()[-1]["result"]["exit_code"] == code


def test_a_wall_limit_ends_the_agent_and_is_told(project: Project) -> None:
    """In time, with the reason on stderr."""
    project.agent({**CLOSED, "limits": {"wall": "1s"}}, "time.sleep(60)")
    start = time.monotonic()
    ended = project.run_agent()
    assert time.monotonic() - start < 15
    assert ended.code == 137 and "the wall limit ended the agent" in ended.err


# -- without a policy -------------------------------------------------------------------


def test_without_a_policy_it_is_unrestricted_and_says_so(project: Project) -> None:
    """The agent has the user's own privileges; the first line says it."""
    project.agent(None, "return open(request['prompt']).read()")
    secret = project.home / "secret"
    project.write("x", "")
    secret.write_text("seen")
    for ended in (
        project.run_agent(str(secret)),
        project.axonkernel("run", "--agent", "agent.py", str(secret)),
    ):
        assert (ended.code, ended.out) == (0, "seen\n")
        assert ended.posture == {"policy": "unrestricted"}


def test_a_policy_can_be_required(project: Project) -> None:
    """AXON_REQUIRE_POLICY=1 refuses to run without one; with one it runs."""
    required = {"AXON_REQUIRE_POLICY": "1"}
    project.agent(None, "open('mark', 'w')")
    for ended in (
        project.run_agent(env=required),
        project.axonkernel("run", "--agent", "agent.py", env=required),
        project.axonkernel("run", "--require-policy", "--agent", "agent.py"),
    ):
        assert (ended.code, ended.out) == (78, "")
        assert "a policy is required" in ended.err and "Traceback" not in ended.err
    assert not (project.folder / "mark").exists()
    project.agent(CLOSED, "return 'ran'")
    assert project.run_agent(env=required).out == "ran\n"


# -- escalations ------------------------------------------------------------------------


def test_a_yes_at_the_terminal_lets_it_run(project: Project) -> None:
    """Asked on /dev/tty, outside the box; stdout holds the result alone."""
    project.agent(ASKING, MADE, before=MARK)
    with project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        assert "probe asks to call the tool mark" in run.seen and 'name = "m"' in run.seen
        assert not (project.folder / "out" / "m").exists()
        run.type("yes\n")
        ended = run.ended()
    assert (ended.code, ended.out) == (0, "made\n")
    assert (project.folder / "out" / "m").exists()


@pytest.mark.parametrize("keys", ["no\n", "\n", "n\n"])
def test_a_no_at_the_terminal_keeps_it_from_running(project: Project, keys: str) -> None:
    """The default is no, and the agent learns that a person said so."""
    project.agent(ASKING, MADE, before=MARK)
    with project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type(keys)
        ended = run.ended()
    assert ended.code == 1 and "a person was asked and said no" in ended.err
    assert not (project.folder / "out" / "m").exists()


def test_nobody_at_the_terminal_is_no_after_the_timeout(project: Project) -> None:
    """It fails closed, and says why."""
    project.agent({**ASKING, "escalation": {"timeout": "1s"}}, MADE, before=MARK)
    with project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        ended = run.ended()
    assert ended.code == 1 and "did not answer in time" in ended.err
    assert not (project.folder / "out" / "m").exists()


def test_without_a_terminal_it_is_no(project: Project) -> None:
    """Headless: after the timeout, or at once where the policy says so."""
    for escalation in ({"timeout": "1s"}, {"headless": "deny"}):
        project.agent({**ASKING, "escalation": escalation}, MADE, before=MARK)
        start = time.monotonic()
        ended = project.run_agent()
        assert time.monotonic() - start < 15
        assert ended.code == 1 and "nobody can be asked here" in ended.err
    assert not (project.folder / "out" / "m").exists()


def test_the_wall_clock_stands_still_while_a_person_is_asked(project: Project) -> None:
    """A slow answer costs the agent nothing; its own time is counted all the same."""
    policy = {**ASKING, "limits": {"wall": "2s"}}
    project.agent(policy, "await kernel.call('mark', name='m'); return 'done'", before=MARK)
    with project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        time.sleep(3)
        run.type("yes\n")
        ended = run.ended()
    assert (ended.code, ended.out) == (0, "done\n")
    project.agent(policy, "await kernel.call('mark', name='m'); time.sleep(60)", before=MARK)
    with project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type("yes\n")
        ended = run.ended()
    assert ended.code == 137 and "the wall limit" in ended.err


def test_a_tool_in_the_private_tmp_can_be_asked_for(project: Project) -> None:
    """Both sides of the wall agree about what the box itself grants."""
    tool = """
    @agent.tool("note")
    def note(path: Annotated[str, WritePath]) -> str:
        open(path, "w").close()
        return path
    """
    policy = {**CLOSED, "tools": {"note": "escalate"}}
    project.agent(policy, "return await kernel.call('note', path='/tmp/x')", before=tool)
    with project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type("yes\n")
        assert run.ended().out == "/tmp/x\n"


# -- records ----------------------------------------------------------------------------


def test_records_from_inside_say_so(project: Project) -> None:
    """Decisions made in the box carry ``source: box``; the supervisor's own do not."""
    policy = {**ASKING, "escalation": {"headless": "deny"}}
    project.agent(policy, "return await code_of(kernel.call('mark', name='m'))", before=MARK)
    assert project.run_agent().out == "tool\n"
    sources = {record["kind"]: record.get("source") for record in project.records()}
    assert sources["decision"] == "box"
    assert {kind for kind, source in sources.items() if source is None} == {
        "box.start", "escalation.settled", "box.end",
    }  # fmt: skip
    assert verify(project.home / "state" / "axonkernel" / "audit.jsonl") == ()


# -- an agent that speaks to the supervisor itself --------------------------------------

#: Write one frame to the channel, below the kernel; ``question`` is a well-formed one.
FORGE = """
def send(message):
    body = json.dumps(message).encode()
    os.write(3, len(body).to_bytes(4, "big") + body)


def question(name="mark", **changes):
    return {
        "kind": "ToolRequest",
        "request": {"name": name, "args": '{"name": "m"}', "subjects": []},
        "decision": {"verdict": "escalate", "code": "tool", "rule": "FORGED", "layer": "FORGED",
                     "detail": ""},
        "decision_id": "0" * 16, "env": {}, **changes,
    }
"""


def test_a_forged_question_about_a_denied_call_is_not_asked(project: Project) -> None:
    """The supervisor judges it again: nobody sees a prompt, nothing is answered but no."""
    policy = {**ASKING, "tools": {"mark": False, "fs": "escalate"}}
    body = "send({'type': 'ask', 'number': 900, 'question': question()}); time.sleep(1)"
    project.agent(policy, body, before=MARK + FORGE)
    with project.on_terminal("agent.py") as run:
        ended = run.ended()
        assert (ended.code, run.seen) == (0, "")
    assert "escalation.asked" not in {record["kind"] for record in project.records()}


def test_a_question_past_the_kernel_shows_the_true_rule(project: Project) -> None:
    """The positive twin: what does escalate is asked, with the supervisor's own words."""
    body = "send({'type': 'ask', 'number': 900, 'question': question()}); time.sleep(3)"
    project.agent(ASKING, body, before=MARK + FORGE)
    with project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        assert "$.tools.mark" in run.seen and "FORGED" not in run.seen
        run.type("no\n")
        assert run.ended().code == 0
    asked = next(r for r in project.records() if r["kind"] == "escalation.asked")
    assert asked["agent"] == "probe" and "FORGED" not in json.dumps(asked)


FORGED = {
    "unknown": "send({'type': 'allow'})",
    "no type": "send({})",
    "question without a question": "send({'type': 'ask', 'number': 1})",
    "question without a number": "send({'type': 'ask', 'question': question()})",
    "a number that is none": "send({'type': 'ask', 'number': 'x', 'question': question()})",
    "record without an id": "send({'type': 'audit', 'kind': 'decision', 'fields': {}})",
    "record of no fields": "send({'type': 'audit', 'id': '0' * 16, 'kind': 'k', 'fields': 7})",
    "result without a value": "send({'type': 'result'})",
    "error without a text": "send({'type': 'error'})",
}


@pytest.mark.parametrize("forged", FORGED)
def test_who_does_not_speak_the_protocol_is_ended(project: Project, forged: str) -> None:
    """The box is killed, nothing was asked, and the supervisor shows no traceback."""
    project.agent(ASKING, f"{FORGED[forged]}; time.sleep(60)", before=MARK + FORGE)
    start = time.monotonic()
    ended = project.run_agent()
    assert time.monotonic() - start < 20
    assert (ended.code, ended.out) == (137, "") and "Traceback" not in ended.err
    assert project.records()[-1]["result"]["reason"] == "killed"
    assert not (project.folder / "out" / "m").exists()


@pytest.mark.parametrize(
    "changes",
    ["kind='Nothing'", "request=7", "request={}", "env=[]", "decision='allow'", "more=1"],
)
def test_a_question_that_is_none_is_answered_no(project: Project, changes: str) -> None:
    """Malformed inside: denied, unasked, and the agent's own calls go on."""
    body = f"""
    send({{'type': 'ask', 'number': 900, 'question': question({changes})}})
    return await code_of(kernel.call('mark', name='m'))
    """
    policy = {**CLOSED, "tools": {"mark": True}}
    project.agent(policy, body, before=MARK + FORGE)
    with project.on_terminal("agent.py") as run:
        ended = run.ended()
        assert (ended.code, ended.out, run.seen) == (0, "ok\n", "")


def test_a_flood_of_questions_does_not_drown_the_supervisor(project: Project) -> None:
    """Thousands at once, none of them equal: few threads, few prompts, and the rest is no."""
    body = """
    for n in range(8000):
        request = {"name": "mark", "args": json.dumps({"name": str(n)}), "subjects": []}
        send({"type": "ask", "number": 900 + n, "question": question(request=request)})
    open("out/sent", "w").close()
    time.sleep(2)
    """
    project.agent({**ASKING, "escalation": {"timeout": "1s"}}, body, before=MARK + FORGE)
    process = processes.start(
        [sys.executable, "agent.py"], cwd=project.folder, env=project.env,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    most, tasks = 0, Path(f"/proc/{process.pid}/task")
    try:
        while process.poll() is None:
            with suppress(FileNotFoundError):
                most = max(most, len(os.listdir(tasks)))
            time.sleep(0.005)
    finally:
        processes.kill_tree(process.pid)
    assert process.wait(10) == 0 and (project.folder / "out" / "sent").exists()
    assert 2 < most < 100
    asked = [record for record in project.records() if record["kind"] == "escalation.asked"]
    assert 0 < len(asked) <= 60


def test_a_forged_record_cannot_pass_for_the_supervisors(project: Project) -> None:
    """Its source stays the box, its agent, time and hashes the log's own, and the log stays
    whole."""
    body = """
    from axonkernel.box.child import session
    fields = {"source": "supervisor", "at": 0, "prev": "x", "hash": "x", "kind": "x", "note": "n",
              "agent": "another"}
    send({"type": "audit", "id": session().hello["run"] + "00000000", "kind": "decision",
          "fields": fields})
    return "sent"
    """
    project.agent(CLOSED, body, before=MARK + FORGE)
    assert project.run_agent().out == "sent\n"
    record = next(r for r in project.records() if r.get("note") == "n")
    assert record["source"] == "box" and record["agent"] != "another" and record["at"] > 0
    assert verify(project.home / "state" / "axonkernel" / "audit.jsonl") == ()


@pytest.mark.parametrize(
    ("identity", "kind"),
    [('"0123456789abcdef"', "decision"), ('session().hello["run"] + "00000000"', "box.end")],
)
def test_a_record_that_only_the_supervisor_makes_ends_the_run(
    project: Project, identity: str, kind: str
) -> None:
    """Another run's id, and the supervisor's own kinds, are no box's to write; the user is told
    why the agent was ended."""
    body = f"""
    from axonkernel.box.child import session
    send({{"type": "audit", "id": {identity}, "kind": "{kind}", "fields": {{"note": "n"}}}})
    time.sleep(20)
    """
    project.agent(CLOSED, body, before=MARK + FORGE)
    ended = project.run_agent()
    assert ended.code == 137 and "broke the protocol" in ended.err
    assert not [r for r in project.records() if r.get("note") == "n"]
    (end,) = [r for r in project.records() if r["kind"] == "box.end"]
    assert "not its own to make" in end["fault"]


def test_an_environment_variable_does_not_make_an_inside(project: Project) -> None:
    """No variable and no descriptor of a stranger's lets a script pass for boxed."""
    script = "from axonkernel.supervisor.inside import main; main()"
    env = {"AXON_INSIDE": "1", "AXONKERNEL_BOX": "1", "container": "axonkernel"}
    project.write("x", "")
    ended = project.run([sys.executable, "-c", script], env=env)
    assert ended.code == 125 and "not inside a box" in ended.err


# -- kept plans -------------------------------------------------------------------------


def test_a_kept_plan_is_made_anew_when_a_granted_link_leads_elsewhere(project: Project) -> None:
    """Twice the same plan, then another one: what is there is what the link leads to now."""
    for name in ("one", "two"):
        project.write(f"{name}/file", name)
    link = project.folder / "data"
    link.symlink_to("one")
    body = "return [errno_of(open, f'{name}/file') for name in ('one', 'two')]"
    project.agent({"fs": {"read": ["./data"]}}, f"os.chdir({str(project.folder)!r})\n{body}")
    plans = project.home / "cache" / "axonkernel" / "plans"
    assert [project.run_agent().value for _ in range(2)] == [["ok", "ENOENT"]] * 2
    assert len(list(plans.iterdir())) == 1
    link.unlink()
    link.symlink_to("two")
    assert project.run_agent().value == ["ENOENT", "ok"]
    assert len(list(plans.iterdir())) == 2
