"""Programs, their words, and the programs that run other programs."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.decide import compile
from axonkernel.policy.model import ArgsRules, Policy, ShellPolicy
from axonkernel.policy.request import Decision, ProcessRequest, Request

PATH = ("/usr/local/bin", "/usr/bin", "/bin")


def run(*argv: str, cwd: str = "/srv/ws", resolved: str | None = None, **shell: Any) -> Decision:
    args = tuple(sorted(shell.pop("args", {}).items()))
    ruleset = compile(Policy(shell=ShellPolicy(args=args, **shell)), path=PATH)
    return ruleset.decide(ProcessRequest(argv, cwd, resolved=resolved))


def spawn(*argv: str, **shell: Any) -> Decision:
    ruleset = compile(Policy(shell=ShellPolicy(**shell)))
    return ruleset.decide(Request.process(argv, spawn=True))


def test_a_bare_name_admits_the_name_and_its_path_in_the_search_path() -> None:
    """Nothing that is merely called the same."""
    for program in ("git", "/usr/bin/git", "//usr/bin//git"):
        assert run(program, allow=("git",)).verdict == "allow", program
    for program in ("./git", "/srv/ws/out/git", "out/git", "/usr/bin/../../srv/ws/git", "Git"):
        decision = run(program, allow=("git",))
        assert (decision.verdict, decision.code) == ("deny", "shell.program"), program


def test_a_relative_spelling_in_the_search_path_is_still_not_the_name() -> None:
    """``./git`` is never ``git``, wherever one stands."""
    assert run("./git", cwd="/usr/bin", allow=("git",)).verdict == "deny"


def test_a_path_in_allow_is_that_path() -> None:
    """Spelled absolute or relative to the working directory; not the bare name."""
    allow = ("/srv/ws/.venv/bin/pytest",)
    assert run("./.venv/bin/pytest", allow=allow).verdict == "allow"
    assert run("/srv/ws/.venv/bin/pytest", allow=allow).verdict == "allow"
    assert run("pytest", allow=allow).verdict == "deny"
    assert run("./.venv/bin/pytest", cwd="/srv/other", allow=allow).verdict == "deny"
    assert run("/srv/ws/link/../.venv/bin/pytest", allow=allow).verdict == "deny"


def test_names_compare_whole_and_globs_as_written() -> None:
    """``ls`` is not ``lsof``; ``python3*`` is any of them."""
    assert run("ls", allow=("ls",)).verdict == "allow"
    assert run("lsof", allow=("ls",)).verdict == "deny"
    assert run("python3.11", allow=("python3*",)).verdict == "allow"
    assert run("/usr/bin/python3.11", allow=("python3*",)).verdict == "allow"
    assert run("python2", allow=("python3*",)).verdict == "deny"


@pytest.mark.parametrize(
    ("spelling", "resolved"),
    [
        ("sudo", None),
        ("/usr/bin/sudo", None),
        ("./sudo", None),
        ("//usr/bin/../bin/sudo", None),
        ("/tmp/s", "/usr/bin/sudo"),
        ("s", "/usr/bin/sudo"),
    ],
)
def test_deny_compares_every_spelling(spelling: str, resolved: str | None) -> None:
    """The last part of the name and of the file it stands for."""
    decision = run(spelling, "id", resolved=resolved, allow=True, deny=("sudo",))
    assert (decision.verdict, decision.rule) == ("deny", "$.shell.deny[0]")
    assert run("/tmp/s", "id", resolved="/tmp/s", allow=True, deny=("sudo",)).verdict == "allow"


def test_a_denied_path_covers_the_bare_name_that_may_find_it() -> None:
    """Unless what it found is known to be another file."""
    deny = ("/usr/bin/git",)
    assert run("git", allow=True, deny=deny).verdict == "deny"
    assert run("git", resolved="/usr/local/bin/git", allow=True, deny=deny).verdict == "allow"
    assert run("/usr/local/bin/git", allow=True, deny=deny).verdict == "allow"


@pytest.mark.parametrize(
    "argv", [("ls", "docs/source"), ("ls", "internal/eval"), ("grep", "sudo", "README"),
             ("cat", "sudo"), ("yarn-lock", "yarn"), ("echo", "yarn")],
)  # fmt: skip
def test_command_rules_look_at_the_command_only(argv: tuple[str, ...]) -> None:
    """Words that happen to be denied names are ordinary words."""
    assert run(*argv, allow=True, deny=("sudo", "source", "eval", "yarn")).verdict == "allow"


def test_a_denied_name_covers_every_list_of_words() -> None:
    """``yarn`` and ``yarn test``."""
    assert run("yarn", allow=True, deny=("yarn",)).verdict == "deny"
    assert run("yarn", "test", allow=True, deny=("yarn",)).verdict == "deny"


def git(*words: str, **args: Any) -> Decision:
    return run("git", *words, allow=("git",), args={"git": ArgsRules(**args)})


@pytest.mark.parametrize(
    "words",
    [
        "push --force",
        "push origin main --force",
        "push origin x --force-with-lease",
        "-C . push origin x --force-with-lease",
        "--git-dir=/x push --force",
        "--git-dir /x -c a=b push --force",
    ],
)
def test_denied_words_match_in_any_order_after_the_subcommand(words: str) -> None:
    """The first token is the subcommand, behind git's global options; the rest any word."""
    decision = git(*words.split(), deny=("push --force*",))
    assert (decision.verdict, decision.code, decision.rule) == (
        "deny", "shell.args", "$.shell.args.git.deny[0]",
    )  # fmt: skip


@pytest.mark.parametrize(
    "words", ["push origin main", "log push --force", "log", "", "-C push status --force"]
)
def test_words_elsewhere_are_not_the_subcommand(words: str) -> None:
    """``git log push`` does not push, and ``-C push`` is a folder."""
    assert git(*words.split(), deny=("push --force*",)).verdict == "allow"


def test_an_unknown_global_option_escalates() -> None:
    """What follows it may be its value or the subcommand."""
    assert git("--frobnicate", "push", deny=("push --force*",)).verdict == "escalate"
    assert git("--frobnicate", "push").verdict == "allow"


def test_a_program_without_a_profile_matches_words_anywhere() -> None:
    """Every token must match some word, in any order."""
    args = {"npm": ArgsRules(deny=("publish --tag=*",))}
    assert run("npm", "--tag=x", "publish", allow=("npm",), args=args).verdict == "deny"
    assert run("npm", "publish", allow=("npm",), args=args).verdict == "allow"


@pytest.mark.parametrize(
    ("pattern", "words", "verdict"),
    [
        ("status", "status", "allow"),
        ("status", "status -s", "deny"),
        ("status", "statusx", "deny"),
        ("status *", "status", "allow"),
        ("status *", "status -s --long", "allow"),
        ("status *", "statusx", "deny"),
        ("status *", "-C . status", "deny"),
        ("status*", "statusx", "allow"),
        ("status*", "status -s", "deny"),
        ("log --format=* *", "log --format=%H a b", "allow"),
        ("log --format=* *", "log a --format=%H", "deny"),
        ("*", "", "allow"),
        ("*", "anything at all", "allow"),
        ("", "", "allow"),
        ("", "status", "deny"),
    ],
)
def test_allowed_words_match_position_by_position(pattern: str, words: str, verdict: str) -> None:
    """Only a final ``*`` of its own stands for further words."""
    assert git(*words.split(), allow=(pattern,)).verdict == verdict


def test_a_word_with_a_space_is_one_word() -> None:
    """Words are never joined to compare them."""
    assert git("status x", allow=("status x",)).verdict == "deny"
    assert git("status x", allow=("'status x'",)).verdict == "allow"
    assert git("push", "x --force", deny=("push --force",)).verdict == "allow"
    assert git("status\nrm -rf x", allow=("status",)).verdict == "deny"


def test_loose_patterns_end_in_nothing_or_anything() -> None:
    """``push`` and ``push *`` are the same denial; ``*`` is every call; "" one without words."""
    for pattern in ("push", "push *"):
        assert git("push", deny=(pattern,)).verdict == "deny"
        assert git("push", "x", deny=(pattern,)).verdict == "deny"
        assert git("pull", deny=(pattern,)).verdict == "allow"
    assert git(deny=("*",)).verdict == "deny"
    assert git("log", deny=("*",)).verdict == "deny"
    assert git(escalate=("",)).verdict == "escalate"
    assert git("log", escalate=("",)).verdict == "allow"


def test_argument_rules_rank_deny_escalate_allow() -> None:
    """An escalation holds beside a closed ``allow``; a deny beats both."""
    rules: dict[str, Any] = {
        "allow": ("log *",),
        "escalate": ("push*",),
        "deny": ("push --force*",),
    }
    assert git("log", "-1", **rules).verdict == "allow"
    assert git("push", "origin", **rules).verdict == "escalate"
    assert git("push", "--force", **rules).verdict == "deny"
    assert git("pull", **rules).verdict == "deny"


def test_argument_rules_hold_under_every_name_of_a_program() -> None:
    """By path, and by the file another name stands for."""
    rules: dict[str, Any] = {"allow": True, "args": {"git": ArgsRules(deny=("push",))}}
    assert run("/usr/bin/git", "push", **rules).verdict == "deny"
    assert run("./git", "push", **rules).verdict == "deny"
    assert run("g", "push", resolved="/usr/bin/git", **rules).verdict == "deny"
    assert run("g", "push", resolved="/usr/bin/g", **rules).verdict == "allow"


@pytest.mark.parametrize(
    "argv",
    [
        "env sudo id", "env -i A=1 sudo id", "env -u X -- sudo id", "env - sudo id",
        "timeout 5 sudo id", "timeout -k 1 -s KILL 5 sudo id", "nice -n 10 sudo", "nice -10 sudo",
        "nohup sudo", "stdbuf -oL sudo", "setsid -w sudo", "xargs sudo", "xargs -0n1 sudo",
        "xargs --replace sudo", "busybox sudo", "time -p sudo", "doas sudo", "taskset -c 1 sudo",
        "ionice -c 3 sudo", "chrt -f 5 sudo", "env timeout 5 nice nohup sudo id",
        "/usr/bin/env sudo", "sudo -u me env sudo",
    ],
)  # fmt: skip
def test_what_a_wrapper_runs_is_judged_too(argv: str) -> None:
    """A denied program does not ride on an allowed one."""
    decision = run(*argv.split(), allow=True, deny=("sudo",))
    assert (decision.verdict, decision.code) == ("deny", "shell.program")
    assert run(*argv.replace("sudo", "git").split(), allow=True, deny=("sudo",)).verdict == "allow"


def test_a_wrapper_needs_its_own_entry_and_so_does_what_it_runs() -> None:
    """Both words are commands."""
    assert run("timeout", "5", "git", allow=("git",)).verdict == "deny"
    assert run("timeout", "5", "git", allow=("timeout",)).verdict == "deny"
    assert run("timeout", "5", "git", allow=("timeout", "git")).verdict == "allow"
    assert run("env", allow=("env",)).verdict == "allow"
    assert run("busybox", "sh", "-c", "x", allow=("busybox",)).verdict == "deny"


@pytest.mark.parametrize(
    "argv", ["env -S 'sudo'", "env --frob sudo", "env -Z sudo", "sudo -s", "sudo -i",
             "xargs -I{} {} x", "xargs --replace={} {}", "timeout --sig=KILL 5 x", "xargs env"],
)  # fmt: skip
def test_a_command_that_cannot_be_seen_runs_only_where_any_may(argv: str) -> None:
    """Unknown options, lines in an option, a program read from input."""
    words = argv.replace("'", "").split()
    allow = ("env", "sudo", "xargs", "timeout", "x", "{}")
    assert run(*words, allow=allow).code == "shell.program"
    assert run(*words, allow=allow).verdict == "deny"
    assert run(*words, allow=True, deny=("nothing",)).verdict == "deny"
    assert run(*words, allow=True).verdict == "allow"


def test_words_that_cannot_be_seen_escalate_where_words_matter() -> None:
    """``xargs git`` may be any git, so argument rules cannot be checked."""
    args = {"git": ArgsRules(deny=("push",))}
    assert run("xargs", "git", allow=("git", "xargs"), args=args).verdict == "escalate"
    assert run("xargs", "git", "push", allow=("git", "xargs"), args=args).verdict == "deny"
    assert run("xargs", "ls", allow=("ls", "xargs"), args=args).verdict == "allow"


def test_assignments_in_a_wrapper_are_judged() -> None:
    """A loader control is a hazard however it is set; others are free without ``env``."""
    denied = run("env", "LD_PRELOAD=/x.so", "git", allow=True)
    assert (denied.verdict, denied.code) == ("deny", "shell.hazard")
    assert run("sudo", "PATH=/x", "git", allow=True).code == "shell.hazard"
    assert run("env", "MODE=ci", "git", allow=True).verdict == "allow"


def test_argument_rules_reach_through_a_wrapper() -> None:
    """``timeout 5 git push --force`` is a push."""
    args = {"git": ArgsRules(deny=("push --force*",))}
    argv = ("timeout", "5", "git", "push", "--force")
    assert run(*argv, allow=True, args=args).code == "shell.args"


def test_spawning_needs_its_own_word() -> None:
    """A process that outlives its call."""
    assert spawn("git", allow=("git",)).code == "shell.spawn"
    assert spawn("git", allow=("git",), spawn=2).verdict == "allow"
    assert spawn("git", allow=("git",), spawn=None).verdict == "allow"
    assert spawn("curl", allow=("git",), spawn=None).code == "shell.program"


@pytest.mark.parametrize("argv", [(), ("",), ("git", "status\0x"), ("gi\0t",)])
def test_malformed_argv_is_denied_whatever_the_policy(argv: tuple[str, ...]) -> None:
    """NUL and no program at all."""
    for policy in (Policy(), Policy(shell=ShellPolicy(allow=True))):
        decision = compile(policy).decide(Request.process(argv))
        assert (decision.verdict, decision.code) == ("deny", "request.malformed")


@pytest.mark.parametrize("word", ["a\rb", "a\x0bb", "a\u2028b", "a\u00a0b", "$(id)", "a;b", "*"])
def test_other_characters_are_data(word: str) -> None:
    """In a list of words nothing is special."""
    assert run("printf", "%s", word, allow=("printf",)).verdict == "allow"


@pytest.mark.parametrize(
    "argv",
    [("git", *["x"] * 10_000), ("git", "x" * (1 << 20)), ("env",) * 400],
    ids=["words", "bytes", "depth"],
)
def test_beyond_a_cap_is_denied(argv: tuple[str, ...]) -> None:
    """Never asked, never allowed."""
    decision = run(*argv, allow=True)
    assert (decision.verdict, decision.code) == ("deny", "request.too_complex")


def test_just_below_a_cap_is_judged() -> None:
    """The positive twin: the last word of many is still looked at."""
    args = {"git": ArgsRules(deny=("push --force",))}
    long = ("git", "push", *["x"] * 9_000)
    assert run(*long, allow=("git",), args=args).verdict == "allow"
    assert run(*long, "--force", allow=("git",), args=args).verdict == "deny"


def line(text: str, **shell: Any) -> Decision:
    return compile(Policy(shell=ShellPolicy(**shell))).decide(Request.shell(text))


def test_a_line_without_shell_syntax_is_its_words() -> None:
    """It is split and judged like a list."""
    assert line("git log '$(id)'", allow=("git",)).verdict == "allow"
    assert line("curl x", allow=("git",)).code == "shell.program"
    assert line("", allow=("git",)).code == "request.malformed"
    assert line("git\0", allow=("git",)).code == "request.malformed"
    assert line("x" * (1 << 21), allow=True).code == "request.too_complex"


def test_a_line_with_shell_syntax_needs_raw() -> None:
    """Without ``raw`` it is denied by rule, whatever may run; with it the rules are asked."""
    for text in ("git log && curl x", "git $(curl x)", "A=1 git", "export A; git"):
        decision = line(text, allow=True)
        assert (decision.verdict, decision.code) == ("deny", "shell.raw")
        assert line(text, allow=True, raw=True).verdict == "allow"


def test_absent_empty_and_closed_differ() -> None:
    """Absent: no opinion. Empty: nothing. ``default: deny``: nothing."""
    assert compile(Policy()).decide(Request.process(["sudo"])).verdict == "allow"
    assert compile(Policy()).decide(Request.shell("a | b")).verdict == "allow"
    assert run("git").verdict == "deny"
    closed = compile(Policy(default="deny")).decide(Request.process(["git"]))
    assert (closed.verdict, closed.layer) == ("deny", "default")
