"""``axonkernel explain``."""

from __future__ import annotations

import json

import pytest

from .conftest import Shell

POLICY = {
    "default": "deny",
    "fs": {"read": ["src"], "write": ["out"], "deny": ["src/secret"]},
    "net": {"allow": ["api.example.com:443"]},
    "shell": {
        "allow": ["git"],
        "args": {"git": {"deny": ["push --force*"], "escalate": ["push*"]}},
    },
    "env": {"allow": ["TOKEN"]},
    "tools": {"fs": {"read": True, "remove": False}, "*": "escalate"},
}

CASES = [
    (["--", "git", "status"], "allow", "shell.program"),
    (["--", "git", "push"], "escalate", "shell.args"),
    (["--", "git", "push", "--force", "origin"], "deny", "shell.args"),
    (["--", "curl", "x"], "deny", "shell.program"),
    (["--raw", "git log | head"], "deny", "shell.raw"),
    (["--tool", "fs.read", "--args", '{"path": "src/a"}'], "allow", "tool"),
    (["--tool", "fs.read", "--args", '{"path": "/srv/elsewhere"}'], "deny", "fs.read"),
    (["--tool", "fs.remove"], "deny", "tool"),
    (["--tool", "mail.send"], "escalate", "tool"),
    (["--read", "src/a.py"], "allow", "fs.read"),
    (["--read", "src/secret"], "deny", "fs.read"),
    (["--write", "src/a.py"], "deny", "fs.write"),
    (["--write", "out/a"], "allow", "fs.write"),
    (["--connect", "api.example.com:443"], "allow", "net.host"),
    (["--connect", "api.example.com"], "allow", "net.host"),
    (["--connect", "api.example.com:80"], "deny", "net.host"),
    (["--connect", "evil.example"], "deny", "net.host"),
    (["--env", "TOKEN"], "allow", "env.name"),
    (["--env", "SECRET"], "deny", "env.name"),
]

EXIT_CODES = {"allow": 0, "deny": 10, "escalate": 11}


@pytest.fixture
def project(shell: Shell) -> Shell:
    """A project with a policy, with a source folder."""
    shell.write("policy.json", json.dumps(POLICY))
    shell.write("src/secret", "")
    return shell


@pytest.mark.parametrize(("words", "verdict", "code"), CASES)
def test_the_exit_code_is_the_verdict(
    project: Shell, words: list[str], verdict: str, code: str
) -> None:
    """0 allow, 10 deny, 11 escalate; JSON has the five keys, and text says the same."""
    ended = project.axonkernel("explain", "--json", "--policy", "policy.json", *words)
    assert ended.code == EXIT_CODES[verdict], ended.out + ended.err
    assert {"verdict", "code", "rule", "layer", "hint"} <= set(ended.json)
    assert (ended.json["verdict"], ended.json["code"]) == (verdict, code)


def test_the_text_names_rule_and_policy(project: Shell) -> None:
    """A person sees the verdict, the rule that decides, and where it is written."""
    ended = project.axonkernel("explain", "--policy", "policy.json", "--", "git", "push")
    assert ended.code == 11
    assert ended.out.startswith("escalate (shell.args)\n")
    assert "$.shell.args.git.escalate[0]" in ended.out
    assert str(project.folder / "policy.json") in ended.out
    assert ended.err == ""


def test_the_policy_found_is_used_before_it_is_trusted(project: Shell) -> None:
    """Reading it runs nothing; the text says that it is not trusted."""
    ended = project.axonkernel("explain", "--read", "src/a.py")
    assert ended.code == 0
    assert "not trusted yet" in ended.out
    project.axonkernel("trust")
    assert "not trusted" not in project.axonkernel("explain", "--read", "src/a.py").out


def test_cwd_moves_the_request_and_not_the_policy(project: Shell) -> None:
    """Relative paths of the request count from --cwd."""
    words = ("explain", "--unboxed", "--policy", "policy.json", "--read")
    assert project.axonkernel(*words, "a.py").code == 10
    assert project.axonkernel(*words, "a.py", "--cwd", "src").code == 0
    assert project.axonkernel(*words, "../src/a.py", "--cwd", "/").code == 10


def test_a_symlink_is_explained_by_its_target(project: Shell) -> None:
    """As the kernel would decide it."""
    (project.folder / "src" / "link").symlink_to("/etc/shadow")
    (project.folder / "src" / "good").symlink_to("a.py")
    words = ("explain", "--policy", "policy.json", "--read")
    assert project.axonkernel(*words, "src/link").code == 10
    assert project.axonkernel(*words, "src/good").code == 0


def test_what_the_box_grants_by_itself(project: Shell) -> None:
    """The private /tmp is writable in a box (layer ``box``) and not outside one."""
    words = ("explain", "--json", "--policy", "policy.json", "--write", "/tmp/x")
    boxed = project.axonkernel(*words)
    assert (boxed.code, boxed.json["layer"]) == (0, "box")
    assert project.axonkernel(*words, "--box").out == boxed.out
    assert project.axonkernel(*words, "--unboxed").code == 10


def test_it_is_said_how_a_box_holds_a_name(project: Shell) -> None:
    """A note beside the verdict, in the box only, and not for a denial or a literal address."""
    rules = ["api.example.com:443", "203.0.113.0/24:443", "public"]
    project.write("policy.json", json.dumps({"net": {"allow": rules}}))
    project.write("off.json", json.dumps({"net": {"allow": rules, "dns": "off"}}))
    project.write("open.json", json.dumps({"net": {"allow": True}}))
    asked = [
        ("policy.json", "--box", "api.example.com:443", "in a box a name is held"),
        ("off.json", "--box", "api.example.com:443", "net.dns is off"),
        ("policy.json", "--box", "198.51.100.1:443", ""),
        ("policy.json", "--box", "93.184.216.34:443", ""),
        ("policy.json", "--box", "203.0.113.10:443", ""),
        ("policy.json", "--box", "api.example.com:22", ""),
        ("policy.json", "--unboxed", "api.example.com:443", ""),
        ("open.json", "--box", "api.example.com:443", ""),
    ]
    for policy, where, target, told in asked:
        words = ("explain", "--json", "--policy", policy, where, "--connect", target)
        notes = " ".join(project.axonkernel(*words).json["notes"])
        assert told in notes, (target, notes)
        assert told or not ("a name is held" in notes or "net.dns" in notes), (target, notes)


def test_the_floor_is_readable_in_the_box_only(project: Shell) -> None:
    """The dynamic linker's cache is; the shadow file is not."""
    words = ("explain", "--policy", "policy.json", "--read")
    assert project.axonkernel(*words, "/etc/ld.so.cache").code == 0
    assert project.axonkernel(*words, "/etc/ld.so.cache", "--unboxed").code == 10
    assert project.axonkernel(*words, "/etc/shadow").code == 10


def test_a_policy_without_walls_is_explained_unboxed(shell: Shell) -> None:
    """``isolation = "none"`` is the mediator alone: nothing is granted by a box."""
    shell.write("policy.json", '{"isolation": "none", "fs": {"read": ["src"]}}')
    words = ("explain", "--policy", "policy.json", "--write", "/tmp/x")
    assert shell.axonkernel(*words).code == 10
    assert shell.axonkernel(*words, "--box").code == 0


def test_the_profile_decides_too(project: Shell) -> None:
    """A ceiling's denial wins over the policy's allow, and is named as its layer."""
    folder = project.home / ".config" / "axonkernel"
    folder.mkdir(parents=True)
    profile = folder / "profile.toml"
    profile.write_text('[shell]\nallow = true\ndeny = ["git"]\n')
    profile.chmod(0o644)
    ended = project.axonkernel("explain", "--json", "--policy", "policy.json", "--", "git", "log")
    assert ended.code == 10
    assert ended.json["layer"] == "profile"
    assert ended.json["rule"] == "$.shell.deny[0]"


def test_no_policy_is_unrestricted_and_said_so(shell: Shell) -> None:
    """Absence allows, never silently, and is refused where a policy is required."""
    ended = shell.axonkernel("explain", "--read", "/etc/shadow")
    assert ended.code == 0
    assert "unrestricted" in ended.out
    ended = shell.axonkernel("explain", "--read", "/etc/shadow", AXON_REQUIRE_POLICY="1")
    assert ended.code == 78


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        ["--read", "a", "--write", "b"],
        ["--read", "a", "--", "git"],
        ["--args", "{}", "--read", "a"],
        ["--tool", "t", "--args", "{"],
        ["--tool", "t", "--args", "[1]"],
        ["--box", "--unboxed", "--read", "a"],
    ],
)
def test_exactly_one_request(project: Shell, words: list[str]) -> None:
    """Anything else is wrong usage."""
    ended = project.axonkernel("explain", "--policy", "policy.json", *words)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err


def test_a_bad_policy_is_78_as_json_too(shell: Shell) -> None:
    """One document on stdout."""
    shell.write("policy.json", '{"default": 1}')
    ended = shell.axonkernel("explain", "--json", "--policy", "policy.json", "--read", "a")
    assert ended.code == 78
    assert ended.json["faults"][0]["path"] == "$.default"


def test_what_a_tool_of_the_agents_touches_is_not_known(shell: Shell) -> None:
    """Its file is not run: the tool rule is told, and that its subjects are judged later; of a
    built-in tool all is known, and a denial stands whatever its arguments are."""
    shell.write("policy.json", '{"fs": {"read": ["src"]}, "tools": {"no": false, "*": true}}')
    words = ["explain", "--policy", "policy.json", "--args", '{"path": "/etc/x"}', "--tool"]
    ended = shell.axonkernel(*words, "notes.append", "--json")
    assert (ended.code, ended.json["verdict"], ended.json["code"]) == (0, "allow", "tool")
    (note,) = ended.json["notes"]
    assert note.startswith("what notes.append touches is judged when it is called")
    assert f"  note: {note}\n" in shell.axonkernel(*words, "notes.append").out
    for name, code in (("fs.read", 10), ("no", 10), ("block.bash", 0)):
        ended = shell.axonkernel(*words, name, "--json")
        assert (ended.code, ended.json["notes"]) == (code, [])


def test_words_after_the_dashes_are_taken_as_they_are(project: Shell) -> None:
    """A second ``--`` and options of ours belong to the command."""
    ended = project.axonkernel(
        "explain", "--json", "--policy", "policy.json", "--", "git", "--", "--json", "--help"
    )
    assert ended.json["verdict"] in ("allow", "deny", "escalate")
    assert ended.code in (0, 10, 11)


def test_odd_bytes_are_no_crash(project: Shell) -> None:
    """A path that is not UTF-8 and a word with an escape sequence are explained."""
    odd = (b"--read", b"/srv/\xff")
    ended = project.axonkernel("explain", "--json", "--policy", "policy.json", *odd)
    assert ended.code == 10
    assert ended.json["verdict"] == "deny"
    ended = project.axonkernel("explain", "--policy", "policy.json", "--", "\x1b[2Jgit")
    assert ended.code == 10
    assert "\x1b" not in ended.out


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["--read", "/var/tmp/x"], "/var/tmp in the box is its own"),
        (["--read", "~/.ssh/id_rsa"], " in the box is its own, empty at the start"),
        (["--connect", "127.0.0.1:80"], "a box has a loopback of its own"),
    ],
)
def test_what_has_only_the_same_name_in_the_box_is_told(
    shell: Shell, words: list[str], note: str
) -> None:
    """In text and in JSON; outside a box nothing of it is true, and nothing is said."""
    policy = {"default": "deny", "fs": {"read": ["src"]}, "net": {"allow": ["127.0.0.1:80"]}}
    shell.write("policy.json", json.dumps(policy))
    ask = ["explain", "--box", "--policy", "policy.json", *words]
    ended = shell.axonkernel(*ask)
    assert ended.code == 0 and "  note: " in ended.out and note in ended.out
    assert "also: allow box" not in ended.out
    assert any(note in each for each in shell.axonkernel(*ask, "--json").json["notes"])
    assert note not in shell.axonkernel(*(w for w in ask if w != "--box"), "--unboxed").out
