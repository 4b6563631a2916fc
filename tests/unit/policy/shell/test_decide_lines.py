"""Decisions about shell lines: every simple command, assignment and redirection counts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from attrs import evolve

from axonkernel.policy.commands import commands_of
from axonkernel.policy.decide import compile
from axonkernel.policy.explain import explain
from axonkernel.policy.model import ArgsRules, EnvPolicy, FsPolicy, NetPolicy, Policy, ShellPolicy
from axonkernel.policy.request import Decision, Request


def line(text: str, *allow: str, cwd: str = "/srv/ws", **blocks: Any) -> Decision:
    policy = Policy(shell=ShellPolicy(allow=allow, raw=True), **blocks)
    return compile(policy).decide(Request.shell(text, cwd=cwd))


@pytest.mark.parametrize("join", [" && ", "; ", " | ", " || ", " & ", " |& ", "\n", ";"])
def test_every_command_of_a_chain_is_judged(join: str) -> None:
    """An allowed head carries nobody along, wherever it stands."""
    for text in (f"cd /srv/ws{join}python3 x.py", f"python3 x.py{join}cd /srv/ws"):
        denied = line(text, "cd", "git")
        assert (denied.verdict, denied.code, denied.subject) == ("deny", "shell.program", "python3")
        assert line(text, "cd", "python3").verdict == "allow"


#: Lines that run ``id`` somewhere.
_HIDDEN = [
    "echo `id`", "echo $(id)", "cat <(id)", 'echo "$(id)"', "cat > >(id)", 'echo "`id`"',
    "echo $(echo $(id))", "cat <<E\n$(id)\nE", "cat <<< $(id)", "A=$(id)", "A=$(id) echo",
    "if id; then cat; fi", "while id; do cat; done", "for i in $(id); do cat; done",
    "case $(id) in x) cat;; esac", "case x in $(id)) cat;; esac", "case x in x) id;; esac",
    "f() { id; }; f", "f() { id; }", "(id)", "{ id; }", "[[ -n $(id) ]]", "! id", "time id",
    "echo > $(id)", "cat <<E | id\nx\nE", "echo ${A}$(id)", "echo x#$(id)", "echo a; id # cat",
    "time -p id", "cat < f | id", "2>&1 id", "A=1 id", "'id'", "i\\d", "\"id\"", "i''d", "$'id'",
    "$'\\x69d'", "cat <<'E'\nx\nE\nid", "echo \\\n x; id", "echo & id", "echo &&\nid",
]  # fmt: skip


@pytest.mark.parametrize("text", _HIDDEN)
def test_a_command_is_found_wherever_it_hides(text: str) -> None:
    """In substitutions of every quoting, in every compound command."""
    allow = ("echo", "cat")
    denied = line(text, *allow)
    assert (denied.verdict, denied.code, denied.subject) == ("deny", "shell.program", "id")
    assert line(text, *allow, "id").verdict == "allow"


_LITERAL = [
    "echo '$(id)'; cat", 'echo "<(id)"; cat', "echo \\$\\(id\\); cat", "echo '`id`' | cat",
    "cat <<'E'\n$(id) `id`\nE", "echo x # id\ncat", "echo id; cat", "cat 'a; id'",
    "echo a\\;id; cat",
    "echo '\nid\n'; cat", 'echo "a && id" && cat', "cat <<E\nid\nE",
]  # fmt: skip


@pytest.mark.parametrize("text", _LITERAL)
def test_quoted_text_is_no_command(text: str) -> None:
    """What bash takes literally is not held against anybody."""
    assert line(text, "echo", "cat").verdict == "allow"


_BUILTINS = [
    "export A=b", "declare A=b", "typeset A=b", "set -e", "alias git=id", "trap id EXIT",
    "eval id", ". ./x", "source x", "hash -p /bin/id git", "enable -n git", "true", ":", "echo x",
    "cd /", "pwd", "test -f x", "[ -f x ]", "printf x", "read A", "unset A", "exec git",
    "command git", "builtin true", "shopt -s extglob", "let A=1", "mapfile A", "readonly A=1",
    "ulimit -n 1", "umask 0", "wait", "exit", "false", "type git", "getopts a A", "kill 1",
]  # fmt: skip


@pytest.mark.parametrize("text", _BUILTINS)
def test_builtins_are_programs(text: str) -> None:
    """None runs unless it is listed, alone or before an allowed command."""
    for whole in (text, f"{text}; git log", f"git log && {text}", f"( {text} )"):
        assert line(whole, "git").verdict == "deny"
    assert line("git log; git diff", "git").verdict == "allow"


@pytest.mark.parametrize("name", ["eval", ".", "source", "trap", "alias", "enable", "hash", "let"])
def test_what_runs_text_is_denied_even_when_listed(name: str) -> None:
    """A list of programs cannot cover what such a built-in goes on to run."""
    denied = line(f"{name} x; git", "git", name)
    assert (denied.verdict, denied.code) == ("deny", "shell.program")
    everything = Policy(shell=ShellPolicy(allow=True, raw=True))
    assert compile(everything).decide(Request.shell(f"{name} x; git")).verdict == "allow"


_DENIED_FORMS = [
    "command -p git", "exec -a x git", "builtin eval git", "command eval git", "printf -v PATH x",
    'printf "$A" x', "read 'a[$(id)]'", "read -a A", "unset 'a[$(id)]'", "unset -f git",
    "test -v 'a[$(id)]'", '[ "$A" "$B" ]', "[ $A = x ]", "[ -v A ]", "declare -n A=B",
    "export 'A[$(id)]=1'", "export $A", "set -o posix", "set -H", "set +B", "wait -p A",
    "jobs -x id",
    "command export A=$B", "printf -vPATH x", "printf %n PATH", "printf 'x%-5ln' PATH",
    "f() { git; }; unset f; f", "{ f() { git; }; } > x; f", "printf x$A y",
    "declare PIPESTATUS='([$(id)]=1)'", "declare DIRSTACK='($(id))'", "declare BASH_REMATCH=1",
    "read OPTIND", "export RANDOM='a[$(id)]'", "OPTIND='a[$(id)]'",
    "for SECONDS in $A; do git; done",
    "local -", "declare -f",
]  # fmt: skip


@pytest.mark.parametrize("text", _DENIED_FORMS)
def test_forms_of_builtins_that_run_or_set_more_are_denied(text: str) -> None:
    """Listing a built-in allows its harmless forms only."""
    allow = ("git", *"command exec builtin printf read unset test [ declare export set".split())
    assert line(f"{text}; git", *allow, "wait", "jobs", "local").verdict == "deny"


_ALLOWED_FORMS = [
    "command git", "exec git", "builtin true", "printf '%s' \"$A\"", "read -r A B", "unset A",
    '[ "$A" = x ]', "[ -n \"$A\" ]", "test a = b", "declare A=1", 'export A="$B"',
    "set -euo pipefail",
    "[ $# -gt 0 ]", "i=0; [ $i -lt 3 ]", "command -v git", "set -- a b", "export A=$B",
    "printf '%s%%n\n' x", "f() { printf x; }; unset A; f",
]  # fmt: skip


@pytest.mark.parametrize("text", _ALLOWED_FORMS)
def test_harmless_forms_of_listed_builtins_are_allowed(text: str) -> None:
    """The positive twin."""
    allow = ("git", *"command exec builtin printf read unset test [ declare export set".split())
    assert line(f"{text}; git", *allow, "true").verdict == "allow"
    assert line(f"{text}; git", "git").verdict == "deny"


@pytest.mark.parametrize(
    "text", ["$A x", '"$A"', "$(git) x", "g{it,x}", "gi? x", "~/x", "`git`", '""']
)
def test_a_program_that_is_not_known_is_denied(text: str) -> None:
    """Nobody can say what a dynamic name runs, unless everything may run."""
    denied = line(f"{text}; git", "git")
    assert (denied.verdict, denied.code) == ("deny", "shell.program")
    everything = Policy(shell=ShellPolicy(allow=True, raw=True))
    assert compile(everything).decide(Request.shell(f"{text}; git")).verdict == "allow"


def test_words_that_are_not_known_are_unseen() -> None:
    """Globs, variables and the like keep their place and are marked."""
    (cat, git) = commands_of(Request.shell('cat .[e]nv $A "x" ~/y {a,b}; git', cwd="/w"))
    assert (cat.words, cat.dynamic) == ((".[e]nv", "$A", "x", "~/y", "{a,b}"), (0, 1, 3, 4))
    assert cat.unseen and not git.unseen


def test_args_rules_see_words_of_lines() -> None:
    """A denied word is denied in any quoting; one that cannot be seen asks."""
    rules = ShellPolicy(
        allow=("git", "cat"), raw=True, args=(("git", ArgsRules(deny=("push --force*",))),)
    )
    decide = compile(Policy(shell=rules)).decide
    for text in (
        "git push --force | cat",
        "git 'push' \"--for\"ce; cat",
        "cat & git push $'--force'",
    ):
        assert decide(Request.shell(text)).code == "shell.args"
        assert decide(Request.shell(text)).verdict == "deny"
    assert decide(Request.shell("git push $A; cat")).verdict == "escalate"
    assert decide(Request.shell("git push origin; cat")).verdict == "allow"


_ODD = ["git\rid", "git\x0bid", "git\u00a0id", "git\u2028id", "git\x0c id"]


@pytest.mark.parametrize("text", _ODD)
def test_other_white_space_does_not_separate(text: str) -> None:
    """bash takes a carriage return and its like for letters, and so does the analysis."""
    assert line(f"{text}; git x", "git", "id").verdict == "deny"
    assert line("git 'a\rb\x0bc\u00a0d\u2028e'; git", "git").verdict == "allow"


def test_a_nul_is_malformed() -> None:
    """bash would cut or drop it."""
    assert line("git; g\0it", "git").code == "request.malformed"


@pytest.mark.parametrize("count", [49, 50, 51, 60, 2_000])
def test_no_cap_weakens_a_denial(count: int) -> None:
    """The last of many commands is judged like the first."""
    assert line("true;" * count + "id", "true").subject == "id"
    assert line("true;" * count + "true", "true").verdict == "allow"


_HUGE = {
    "commands": "true;" * 10_001,
    "words": "true " + "x " * 10_001 + "; true",
    "bytes": "true '" + "x" * (1 << 20) + "'",
    "substitutions": "true " + "$(true " * 200 + ")" * 200,
    "subshells": "( " * 200 + "true" + " )" * 200,
    "parentheses": "(" * 200 + "true" + ")" * 200,
    "ifs": "if true; then " * 200 + "true; " + "fi; " * 200,
    "expansions": 'true "' + "$A" * 100_000 + '"; true',
    "braces": "true " + "{" * 500_000 + "; true",
    "arithmetic": "true " + "$((1))" * 100_000 + "; true",
}


@pytest.mark.parametrize("text", _HUGE.values(), ids=_HUGE)
def test_beyond_a_cap_a_line_is_too_complex(text: str) -> None:
    """Never asked, never allowed, in bounded time."""
    started = time.perf_counter()
    denied = line(text, "true")
    assert (denied.verdict, denied.code) == ("deny", "request.too_complex")
    assert time.perf_counter() - started < 10  # it is some tenths of a second


@pytest.mark.parametrize(
    "text",
    ["ls docs/source", "ls internal/eval", "grep sudo README", "cat sudo", "ls eval; cat if"],
)
def test_command_names_count_in_command_position_only(text: str) -> None:
    """A word that would be denied as a program is an ordinary argument."""
    assert line(f"{text}; ls", "ls", "grep", "cat").verdict == "allow"


@pytest.mark.parametrize(
    "text", ["git (", "git 'x", "if git", "git &&", "git | ; git", "git)", "fi"]
)
def test_not_parseable_is_not_not_allowed(text: str) -> None:
    """The operator is told which of the two it is, and no rule is to blame."""
    for allow in (("git",), ("cat",)):
        denied = line(text, *allow)
        assert (denied.verdict, denied.code, denied.layer) == ("deny", "shell.raw", "builtin")
        assert denied.detail.startswith("cannot be parsed")
    assert line("git; cat", "git").code == "shell.program"


@pytest.mark.parametrize("op", [">", ">>", ">|", "&>", "&>>", "2>", "1>>", ">&", "> \\\n "])
def test_redirections_to_files_are_writes(op: str) -> None:
    """Every operator that opens for writing asks the fs rules."""
    fs = FsPolicy(read=("/srv",), write=("/srv/ws/out",))
    for target in ("/etc/x", "x", "out/../x", "'x'", "$'x'"):
        if op == ">&" and "'" in target:
            continue  # refused: bash expands it twice
        denied = line(f"git {op} {target}; git", "git", fs=fs)
        assert (denied.verdict, denied.code) == ("deny", "fs.write"), target
    for target in ("out/x", "/srv/ws/out/x", "/dev/null"):
        assert line(f"git {op} {target}; git", "git", fs=fs).verdict == "allow", target


def test_input_is_a_read() -> None:
    """And descriptors, here-documents and process substitutions are no files."""
    fs = FsPolicy(read=("/srv/ws",))
    assert line("git < /etc/passwd; git", "git", fs=fs).code == "fs.read"
    for text in ("git < x", "git 2>&1", "git >&2 <&0", "git <<< x", "git <<E\nE", "git > >(git)"):
        assert line(f"{text}\ngit", "git", fs=fs).verdict == "allow"


@pytest.mark.parametrize(
    "text", ["> x", "A=1 git > x", "(git) > x", "{ git; } 2> x", "f() { git; } > x"]
)
def test_redirections_of_anything_are_judged(text: str) -> None:
    """Of no command at all, of a subshell, of a function."""
    assert line(f"{text}; git", "git", fs=FsPolicy(read=("/",))).code == "fs.write"
    assert line(f"{text}; git", "git", fs=FsPolicy(write=("/srv",))).verdict == "allow"


@pytest.mark.parametrize("target", ["$A", '"$A"', "*.x", "~/x", "$(git)", "{a,b}", "/srv/ws/$A"])
def test_a_redirection_that_is_not_known_is_denied(target: str) -> None:
    """Where fs or net are declared: it could be any file, or /dev/tcp."""
    for blocks in ({"fs": FsPolicy(write=("/srv/ws",))}, {"net": NetPolicy()}):
        denied = line(f"git > {target}; git", "git", **blocks)
        assert (denied.verdict, denied.code) == ("deny", "fs.write")
    assert line(f"git > {target}; git", "git").verdict == "allow"


def test_sockets_by_redirection_are_destinations() -> None:
    """bash connects to these paths itself, so the net rules are asked."""
    net = NetPolicy(allow=("api.test:80", "9.9.9.9:53/udp"))
    for path in (
        "/dev/tcp/evil.test/80",
        "/dev/tcp/api.test/81",
        "/dev/udp/api.test/80",
        "/dev/tcp/x",
    ):
        if path.count("/") == 4:
            assert line(f"git < {path}; git", "git", net=net).code == "net.host", path
    assert line("git < /dev/tcp/api.test/80; git", "git", net=net).verdict == "allow"
    assert line("git > /dev/udp/9.9.9.9/53; git", "git", net=net).verdict == "allow"
    assert line("git > /dev/tcp/127.1/80; git", "git", net=net).verdict == "deny"


def test_names_of_files_are_data() -> None:
    """Brackets and stars in a quoted name are letters; the same unquoted are not known."""
    fs = FsPolicy(write=("/srv/ws/app/[id]", "/srv/ws/a b(1)"))
    assert line("git > 'app/[id]/p.ts'; git", "git", fs=fs).verdict == "allow"
    assert line("git > app/\\[id\\]/p.ts; git", "git", fs=fs).verdict == "allow"
    assert line("git > a\\ b\\(1\\)/x; git", "git", fs=fs).verdict == "allow"
    assert line("git > app/[id]/p.ts; git", "git", fs=fs).verdict == "deny"
    assert line("git > app/i/p.ts; git", "git", fs=fs).verdict == "deny"


def test_relative_paths_count_from_where_the_command_runs() -> None:
    """``cd`` is followed where its outcome is certain; elsewhere relative paths are not known."""
    fs = FsPolicy(write=("/srv/ws/sub",))
    for text in ("cd sub && git > x", "cd /srv/ws/sub && git > x", "(cd sub && git > x)"):
        assert line(text, "cd", "git", fs=fs).verdict == "allow", text
    for text in (
        "git > x", "cd sub; git > x", "cd sub && git; git > x", "cd $A && git > x",
        "cd - && git > x",
        "cd /etc && cd sub && git > x", "cd sub | git > x", "cd sub & git > x",
        "cd ../sub && git > x",
        "if cd sub; then git > x; fi", "f() { cd /etc; }; cd sub && f && git > x",
        "cd sub || git > x",
    ):  # fmt: skip
        assert line(text, "cd", "git", fs=fs).verdict == "deny", text


def test_relative_programs_count_from_there_too() -> None:
    """A path is granted as that path, not as one below some other folder."""
    assert line("cd sub && ./x", "cd", "/srv/ws/sub/x").verdict == "allow"
    for text in ("cd sub; ./x", "cd sub && ./x", "pushd sub && ./x"):
        assert line(text, "cd", "pushd", "/srv/ws/x").verdict == "deny"


_ASSIGNING = [
    "A=1", "A=1 git", "export A=1", "declare A=1", "readonly A", "read A", "unset A", "A+=1",
    "for A in x; do git; done", "for ((A=0; A<1; A++)); do git; done", "(A=1)", "git $(A=1)",
    "f() { local A=1; }", "command export A=1", "A='x y' B=2 git",
]  # fmt: skip


@pytest.mark.parametrize("text", _ASSIGNING)
def test_assignments_are_judged_by_env(text: str) -> None:
    """However a variable is set, the env rules are asked about its name."""
    allow = "git export declare readonly read unset local command".split()
    denied = line(f"{text}; git", *allow, env=EnvPolicy(allow=("B",)))
    assert (denied.verdict, denied.code, denied.subject) == ("deny", "env.name", "A")
    assert line(f"{text}; git", *allow, env=EnvPolicy(allow=("A", "B"))).verdict == "allow"


@pytest.mark.parametrize(
    "name", ["PATH", "LD_PRELOAD", "PAGER", "GIT_SSH_COMMAND", "IFS", "BASH_ENV", "PS4", "CDPATH"]
)
def test_controls_are_hazards_without_any_env_block(name: str) -> None:
    """Setting what loaders and interpreters obey is denied, in front of a command and alone."""
    for text in (
        f"{name}=x git",
        f"{name}=x; git",
        f"export {name}=x; git",
        f"for {name} in x; do git; done",
    ):
        assert line(text, "git", "export").verdict == "deny"


@pytest.mark.parametrize("name", ["POSIXLY_CORRECT", "BASH_COMPAT", "BASH_ALIASES", "SHELLOPTS"])
def test_bash_is_not_turned_into_another_reader(name: str) -> None:
    """What changes how the rest of the line is read is refused, whatever may be set."""
    everything = Policy(shell=ShellPolicy(allow=True, raw=True))
    assert compile(everything).decide(Request.shell(f"{name}=1; git")).code == "shell.raw"


@pytest.mark.parametrize(
    "text",
    ["a $((A))", "((A=1))", "[[ A -eq 1 ]]", "A=x; a $((A))", "read A; a $((A))", "a $((A[0]))",
     "no && A=1; a $((A))", "a $((A)); A=1", "A=1; A=$(b); a $((A))", "f() { A=1; }; a $((A))",
     "A='$((1'; ((A))", "A=$((1))'a[0]'; ((A))", "A=1 & ((A))",
     "{ A=1; } > x; ((A))", "A=1 > x; ((A))"],
)  # fmt: skip
def test_arithmetic_over_text_is_refused(text: str) -> None:
    """bash evaluates what a variable holds, and a subscript in it runs commands."""
    assert line(f"{text}; a", *"a b no read".split()).code == "shell.raw"


@pytest.mark.parametrize(
    "text",
    ["a $((1 + 2))", "SECONDS=0; a $((SECONDS))",
 "A=1; a $((A + 1))", "for ((i=0; i<3; i++)); do a $((i)); done",
     "a $(($? + 1))", "i=0; while [[ $i -lt 3 ]]; do i=$((i+1)); done",
     "for i in 1 2; do a $((i*2)); done"],
)  # fmt: skip
def test_arithmetic_over_numbers_is_allowed(text: str) -> None:
    """The positive twin."""
    assert line(f"{text}; a", "a").verdict == "allow"


def test_functions_are_judged_where_they_are_defined() -> None:
    """A call of a function that is there for certain needs no entry of its own."""
    assert line('f() { git "$1"; }; f x && f y', "git").verdict == "allow"
    for text in (
        "f; f() { git; }",
        "(f() { git; }); f",
        "if git; then f() { git; }; fi; f",
        "f() { git; } & f",
    ):
        assert line(text, "git").subject == "f"
    assert line("git() { id; }; git", "git").subject == "id"
    assert line("cd() { git; }; cd", "git", "cd").code == "shell.raw"


def test_wrappers_in_lines_are_opened() -> None:
    """And a word that is not known in front of the inner program hides it."""
    assert line("timeout 5 id | git", "git", "timeout").subject == "id"
    assert line("timeout 5 git | git", "git", "timeout").verdict == "allow"
    assert line("timeout $A git | git", "git", "timeout").verdict == "deny"
    assert line("env 'B=1' git | git", "git", "env", env=EnvPolicy()).subject == "B"


def test_spawning_and_the_callers_variables_are_judged() -> None:
    """As for a list of words."""
    decide = compile(Policy(shell=ShellPolicy(allow=("git",), raw=True), env=EnvPolicy())).decide
    assert decide(Request.shell("git; git", spawn=True)).code == "shell.spawn"
    assert decide(Request.shell("git; git", env=["A"])).code == "env.name"
    assert decide(Request.shell("git; git", env=["LD_PRELOAD"])).code == "shell.hazard"
    assert decide(Request.shell("git; git", env=["A=B"])).code == "request.malformed"
    assert decide(Request.shell("git; git")).verdict == "allow"


def test_links_are_followed_when_they_are_known() -> None:
    """The mediator says what a redirection or a name stands for on this machine."""
    policy = Policy(
        shell=ShellPolicy(allow=("git", "s"), deny=("sudo",), raw=True),
        fs=FsPolicy(write=("/srv",)),
    )
    decide = compile(policy).decide
    plain = Request.shell("git > x; s", cwd="/srv")
    assert decide(plain).verdict == "allow"
    assert decide(evolve(plain, files=(("/srv/x", "/etc/x"),))).code == "fs.write"
    assert decide(evolve(plain, files=(("s", "/usr/bin/sudo"),))).code == "shell.program"


def test_explain_lists_the_rule_of_every_command() -> None:
    """And it gives the same answer as the decision."""
    rules = compile(
        Policy(shell=ShellPolicy(allow=("git", "cat"), raw=True), fs=FsPolicy(write=("/s",)))
    )
    request = Request.shell("git log | cat > out", cwd="/s")
    explanation = explain(rules, request)
    assert explanation.decision == rules.decide(request)
    assert explanation.runs == ("git log", "cat > out")
    assert explanation.as_dict()["runs"] == ["git log", "cat > out"]
    assert {match.rule for match in explanation.matches} >= {
        "$.shell.allow[0]", "$.shell.allow[1]", "$.fs.write[0]",
    }  # fmt: skip


def test_explain_lists_commands_that_are_hidden_or_strange() -> None:
    """Each on one line; a line that cannot be read has none."""
    rules = compile(Policy(shell=ShellPolicy(allow=("git",), raw=True)))
    request = Request.shell("A=1 git 'a b' $'x\\n' $B; $B x; echo $(id)")
    assert explain(rules, request).runs == (
        'git "a b" "x\\n" $B A=...',
        "(what $B runs cannot be seen)",
        "echo $(id)",
        "id",
    )
    assert explain(rules, Request.shell("git '")).runs == ()
