"""Shell lines through the kernel: exactly the text that was judged runs, in bash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel, PolicyDenied
from axonkernel.policy.request import Request
from unit.memory import MemoryAudit

Make = Callable[..., Kernel]

_JOINS = [" && ", "; ", " | ", " || ", " & ", " |& ", "\n", " &\n"]


def _raw(*allow: str, **blocks: Any) -> dict[str, Any]:
    return {"shell": {"allow": list(allow), "raw": True}, **blocks}


def _denied(kernel: Kernel, line: str, **options: Any) -> str:
    with pytest.raises(PolicyDenied) as caught:
        kernel.process.run_sync(line, raw=True, **options)
    return caught.value.code


@pytest.mark.parametrize("join", _JOINS)
def test_one_denied_command_stops_the_whole_line(make: Make, ws: Path, join: str) -> None:
    """Nothing of it runs, not even what is allowed; without it the same line runs."""
    kernel = make(_raw("touch", "true", "wait"))
    for line in (f"touch m{join}mkdir n", f"mkdir n{join}touch m"):
        assert _denied(kernel, line) == "shell.program"
    assert not (ws / "m").exists() and not (ws / "n").exists()
    # What bash was not told to wait for ends with the call.
    kernel.process.run_sync(f"touch m{join}true\nwait", raw=True)
    assert (ws / "m").exists()


def test_what_is_allowed_works_as_in_bash(make: Make, ws: Path) -> None:
    """Pipes, substitutions, here-documents, loops, functions and redirections."""
    kernel = make(_raw("printf", "cat", "tr", "true"))
    line = """
        up() { tr a-z A-Z; }
        for word in one "two words"; do printf '%s\\n' "$word"; done | up > out/f
        cat out/f - <<'E' <<< here; printf '%s' "$(cat <<'E'
$(literal) `text`
E
)"
    """
    line = line.replace(" <<'E' <<< here", " <<< here")
    result = kernel.process.run_sync(line, raw=True)
    assert result.text == "ONE\nTWO WORDS\nhere\n$(literal) `text`"


def test_the_callers_variables_are_judged_for_lines(make: Make) -> None:
    """A control is refused with a line as with words, a granted name gets there."""
    kernel = make(_raw("printf", env={"allow": ["MODE"]}))
    for name in ("LD_PRELOAD", "BASH_ENV", "OTHER"):
        assert _denied(kernel, "printf x; printf y", env={name: "x"}) in (
            "shell.hazard",
            "env.name",
        )
    result = kernel.process.run_sync('printf %s "$MODE"; printf y', raw=True, env={"MODE": "x"})
    assert result.text == "xy"


def test_spawning_a_line_is_judged(make: Make) -> None:
    """``shell.spawn`` counts for lines too."""
    with pytest.raises(PolicyDenied) as caught:
        make(_raw("sleep")).process.spawn_sync("sleep 60; sleep 60", raw=True)
    assert caught.value.code == "shell.spawn"
    policy = {"shell": {"allow": ["sleep"], "raw": True, "spawn": {"max": 1}}}
    with make(policy) as kernel:
        spawned = kernel.process.spawn_sync("sleep 60; sleep 60", raw=True)
        assert spawned.running
        with pytest.raises(PolicyDenied):
            kernel.process.spawn_sync("sleep 60; sleep 60", raw=True)
        spawned.kill()


def test_a_redirection_is_judged_by_where_it_leads(make: Make, ws: Path, tmp_path: Path) -> None:
    """A symlink in a writable folder opens nothing outside it, and ``..`` goes by the links."""
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (ws / "out" / "link").symlink_to(outside / "deep")
    kernel = make(_raw("printf", fs={"read": ["."], "write": ["out"]}))
    for target in ("out/link/m", "out/link/../m", "../m", str(outside / "m")):
        assert _denied(kernel, f"printf x > {target}") == "fs.write", target
    assert not list(outside.glob("**/m")) and not (tmp_path / "m").exists()
    kernel.process.run_sync("printf x > out/m", raw=True)
    assert (ws / "out" / "m").read_text() == "x"


def test_a_name_that_leads_to_a_denied_program_is_denied(
    make: Make, ws: Path, tmp_path: Path
) -> None:
    """In a line as in a list of words."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "harmless").symlink_to("/bin/mkdir")
    kernel = make(
        {"shell": {"allow": True, "deny": ["mkdir"], "raw": True, "path": [str(folder), "/bin"]}}
    )
    assert _denied(kernel, "true; harmless m") == "shell.program"
    assert not (ws / "m").exists()
    assert kernel.process.run_sync("true; printf x", raw=True).text == "x"


@pytest.mark.parametrize(
    ("name", "value", "line", "text"),
    [
        ("SHELLOPTS", "noexec", "printf a; printf b", "ab"),
        ("BASHOPTS", "extglob", "printf %s a; printf b", "ab"),
        ("POSIXLY_CORRECT", "1", "printf '%s ' x=~ <(true) | tr -d /; printf b", None),
        ("BASH_FUNC_tr%%", "() { printf owned; }", "printf a | tr a b; printf c", "bc"),
        ("CDPATH", "/", "cd out && cd .. && printf c", "c"),
        ("IFS", "x", 'A=axb; printf "%s|" $A', "axb|"),
    ],
)
def test_the_environment_does_not_change_how_a_line_is_read(
    make: Make, monkeypatch: pytest.MonkeyPatch, name: str, value: str, line: str, text: str | None
) -> None:
    """Modes, functions and separators come from nowhere but the line."""
    monkeypatch.setenv(name, value)
    result = make({"shell": {"allow": True, "raw": True}}).process.run_sync(line, raw=True)
    assert result.exit_code == 0
    assert text is None or result.text == text


def test_a_locale_that_swallows_quotes_is_kept_away(make: Make) -> None:
    """Characters outside ASCII are read as UTF-8, as they were judged."""
    kernel = make(_raw("printf"))
    env = {"LC_ALL": "ja_JP.SJIS"}
    line = "printf '%s' \"$LC_ALL\"; printf é"
    assert kernel.process.run_sync(line, raw=True, env=env).text == "é"
    plain = kernel.process.run_sync("printf '%s' \"$LC_ALL\"; printf e", raw=True, env=env)
    assert plain.text == "ja_JP.SJISe"


def test_without_bash_no_line_runs(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other shell reads what was judged by bash's grammar."""
    policy = {"shell": {"allow": ["printf"], "raw": True, "path": ["/nonexistent"]}}
    assert _denied(make(policy), "printf a; printf b") == "shell.raw"


@pytest.mark.parametrize(
    "line",
    [
        "printf a; printf b", "printf a | touch m", "printf $(touch m)", "printf 'a",
        "printf a > m",
        "printf '$(touch m)'; printf b", "eval 'touch m'", "X=1 printf a", "$X a", "printf a &&",
    ],
)  # fmt: skip
def test_explain_and_the_real_run_agree(
    make: Make, audit: MemoryAudit, ws: Path, line: str
) -> None:
    """What is explained as allowed runs, what is not does not."""
    kernel = make(_raw("printf", fs={"read": ["."]}))
    foreseen = kernel.explain(Request.shell(line)).decision
    try:
        kernel.process.run_sync(line, raw=True)
    except PolicyDenied as denied:
        assert (foreseen.verdict, foreseen.code) == ("deny", denied.code)
    else:
        assert foreseen.verdict == "allow"
    assert not (ws / "m").exists()
