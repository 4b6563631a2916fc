"""The law of narrowing: nothing that either policy refuses gets through, in any spelling.

Requests are drawn from the words of both policies. For a stack the law is an equality for
every kind. For ``meet`` it is one for paths, destinations, variables and tools with plain
verdicts; for programs and patterns ``meet`` is never wider (two globs that only overlap, and
two closed ``allow`` lists of patterns, may have no common pattern).
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from axonkernel.policy.decide import Judge, Stack, compile
from axonkernel.policy.meet import meet
from axonkernel.policy.model import (
    ArgsRules,
    EnvPolicy,
    FsPolicy,
    NetPolicy,
    Policy,
    ShellPolicy,
    SubjectRules,
    ToolRules,
)
from axonkernel.policy.request import (
    STRICTNESS,
    AnyRequest,
    ConnectRequest,
    PathRequest,
    ProcessRequest,
    Request,
    Verdict,
)

SEGMENTS = ("w", "a", "b", ".git", "hooks", "x.key")
PATHS = st.lists(st.sampled_from(SEGMENTS), max_size=4).map(lambda parts: "/" + "/".join(parts))
HOST_PATHS = st.sampled_from(("/tmp", "/tmp/a", "/proc", "/proc/1", "/run/docker.sock", "/dev"))
ANY_PATH = st.one_of(PATHS, PATHS, PATHS, HOST_PATHS)
GLOBS = st.sampled_from(("/**/*.key", "/w/*/b", "/w/**", "/**/.git/hooks", "/a*"))
path_lists = st.lists(ANY_PATH, max_size=3).map(tuple)
fs_policies = st.builds(
    FsPolicy,
    read=path_lists,
    write=path_lists,
    deny=st.lists(st.one_of(ANY_PATH, GLOBS), max_size=2).map(tuple),
    protect=st.one_of(st.none(), st.lists(st.one_of(PATHS, GLOBS), max_size=2).map(tuple)),
    unsafe=st.lists(ANY_PATH, max_size=1).map(tuple),
)
path_requests = st.builds(PathRequest, ANY_PATH, st.booleans())

HOSTS = (
    "a.test", "x.test", "a.x.test", "b.a.x.test", "*.x.test", "*.a.x.test", "*", "public",
    "private", "10.0.0.1", "10.0.0.0/8", "10.0.0.0/30", "0.0.0.0/0", "8.8.8.8", "8.0.0.0/7",
    "169.254.169.254", "169.254.0.0/16", "[fd00:ec2::254]", "[::/0]", "[fd00::/8]",
    "192.168.0.0/15", "127.0.0.1",
)  # fmt: skip
PORTS = ("80", "443", "80-443", "1-65535", "443/udp")


def _entry(host: str, port: str) -> str:
    return f"{host}:{port}"


entries = st.lists(st.builds(_entry, st.sampled_from(HOSTS), st.sampled_from(PORTS)), max_size=3)
net_policies = st.builds(
    NetPolicy,
    allow=st.one_of(st.just(True), entries.map(tuple), entries.map(tuple)),
    deny=entries.map(lambda found: tuple(found[:1])),
    escalate=entries.map(tuple),
)
net_requests = st.builds(
    ConnectRequest,
    st.sampled_from(
        ("a.test", "x.test", "a.x.test", "b.a.x.test", "10.0.0.1", "10.0.0.9", "8.8.8.8",
         "9.9.9.9", "169.254.169.254", "169.254.1.1", "fd00:ec2::254", "fd00::1", "2606::1",
         "192.168.1.1", "192.169.1.1", "localhost", "::ffff:10.0.0.1")
    ),
    st.sampled_from((80, 443, 200, 9)),
    st.sampled_from(("tcp", "udp")),
    # What a name was resolved to.
    st.sampled_from(
        (None, None, "10.0.0.1", "8.8.8.8", "169.254.169.254", "fd00:ec2::254", "127.0.0.1", "?")
    ),
)  # fmt: skip

NAMES = st.sampled_from(("TOKEN", "TO*", "T*", "LANG", "MODE", "*", "LD_*", "L*"))
CONTROLS = st.sampled_from(("LD_PRELOAD", "GIT_DIR"))
env_policies = st.builds(
    EnvPolicy,
    allow=st.lists(NAMES, max_size=3).map(tuple),
    set=st.dictionaries(st.sampled_from(("MODE", "TOKEN", "PAGER")), st.just("x"), max_size=2).map(
        lambda found: tuple(sorted(found.items()))
    ),
    unsafe_allow=st.lists(CONTROLS, max_size=2).map(tuple),
)
env_requests = st.sampled_from(
    ("TOKEN", "TOX", "TX", "LANG", "MODE", "LD_PRELOAD", "LD_X", "GIT_DIR", "PAGER", "Z")
).map(Request.env)

PROGRAMS = ("git", "g*", "gi*", "*it", "ls", "/usr/bin/git", "/opt/git", "/bin/ls", "env")
PATTERNS = ("push", "push *", "push --force*", "log *", "log -1", "*", "", "-C * log", "lo*")
args_rules = st.builds(
    ArgsRules,
    allow=st.one_of(st.none(), st.lists(st.sampled_from(PATTERNS), max_size=3).map(tuple)),
    deny=st.lists(st.sampled_from(PATTERNS), max_size=1).map(tuple),
    escalate=st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple),
)
program_lists = st.lists(st.sampled_from(PROGRAMS), max_size=4).map(tuple)
shell_policies = st.builds(
    ShellPolicy,
    allow=st.one_of(st.just(True), program_lists, program_lists),
    deny=st.lists(st.sampled_from(PROGRAMS), max_size=1).map(tuple),
    args=st.dictionaries(st.sampled_from(("git", "ls", "g*")), args_rules, max_size=2).map(
        lambda found: tuple(sorted(found.items()))
    ),
    spawn=st.sampled_from((0, 1, None)),
)
shell_requests = st.builds(
    ProcessRequest,
    st.builds(
        lambda head, words: (*head, *words),
        st.sampled_from(
            (("git",), ("/usr/bin/git",), ("/opt/git",), ("./git",), ("ls",), ("/bin/ls",),
             ("gist",), ("env", "git"), ("xargs", "git"), ("sit",))
        ),
        st.lists(st.sampled_from(("push", "--force", "log", "-1", "-C", "x", "--odd")), max_size=4),
    ),
    spawn=st.booleans(),
)  # fmt: skip

verdicts: st.SearchStrategy[Verdict] = st.sampled_from(("allow", "deny", "escalate"))
plain_leaves = verdicts
pattern_leaves = st.builds(
    SubjectRules,
    allow=st.one_of(st.none(), st.just(("a*",)), st.just(("ab", "b*"))),
    deny=st.sampled_from(((), ("ab",))),
    escalate=st.sampled_from(((), ("*b",))),
)


def _maps(leaves: st.SearchStrategy[object]) -> st.SearchStrategy[ToolRules]:
    def level(below: st.SearchStrategy[object]) -> st.SearchStrategy[ToolRules]:
        names = st.dictionaries(st.sampled_from(("a", "b")), below, max_size=2)
        stars = st.dictionaries(st.just("*"), leaves, max_size=1)
        return st.builds(lambda n, s: ToolRules(tuple(sorted({**n, **s}.items()))), names, stars)

    return level(st.one_of(leaves, level(st.one_of(leaves, level(leaves)))))


tool_requests = st.builds(
    lambda name, text: Request.tool(name, {"x": text}),
    st.sampled_from(("a", "b", "c", "a.a", "a.b", "a.c", "b.a.a", "b.a.c", "b.c.a.a")),
    st.sampled_from(("ab", "b", "az", "zb", "z")),
)


class _Law:
    """Two policies, compiled, stacked and met once for all requests of an example."""

    def __init__(self, a: Policy, b: Policy) -> None:
        self._both = compile(a), compile(b)
        self._met, self._turned = compile(meet(a, b)), compile(meet(b, a))

    def strictness(self, request: AnyRequest) -> tuple[int, int]:
        """That of the stack, after checking its law, and that of the met policy."""
        wanted = max(_strictness(each, request) for each in self._both)
        assert _strictness(Stack(self._both), request) == wanted
        met = self._met.decide(request)
        assert met.code != "internal", met
        assert STRICTNESS[met.verdict] == _strictness(self._turned, request)
        return wanted, STRICTNESS[met.verdict]


def _strictness(judge: Judge, request: AnyRequest) -> int:
    return STRICTNESS[judge.decide(request).verdict]


@given(fs_policies, fs_policies, st.lists(path_requests, min_size=1, max_size=8))
def test_paths_meet_exactly(a: FsPolicy, b: FsPolicy, requests: list[PathRequest]) -> None:
    """For every path and both kinds of access."""
    law = _Law(Policy(fs=a), Policy(fs=b))
    for request in requests:
        wanted, met = law.strictness(request)
        assert met == wanted


@given(net_policies, net_policies, st.lists(net_requests, min_size=1, max_size=8))
def test_destinations_meet_exactly(
    a: NetPolicy, b: NetPolicy, requests: list[ConnectRequest]
) -> None:
    """For names, addresses of every class, ports and protocols."""
    law = _Law(Policy(net=a), Policy(net=b))
    for request in requests:
        wanted, met = law.strictness(request)
        assert met == wanted


@given(env_policies, env_policies, env_requests)
def test_variables_meet_exactly(a: EnvPolicy, b: EnvPolicy, request: AnyRequest) -> None:
    """For exact names, prefixes, fixed values and control names."""
    wanted, met = _Law(Policy(env=a), Policy(env=b)).strictness(request)
    assert met == wanted


@given(shell_policies, shell_policies, st.lists(shell_requests, min_size=1, max_size=8))
def test_programs_never_meet_in_more(
    a: ShellPolicy, b: ShellPolicy, requests: list[ProcessRequest]
) -> None:
    """Names, paths, wrappers, words and spawning."""
    law = _Law(Policy(shell=a), Policy(shell=b))
    for request in requests:
        wanted, met = law.strictness(request)
        assert met >= wanted


@given(_maps(plain_leaves), _maps(plain_leaves), tool_requests)
def test_tools_meet_exactly(a: ToolRules, b: ToolRules, request: AnyRequest) -> None:
    """For every shape of map with plain verdicts."""
    wanted, met = _Law(Policy(tools=a), Policy(tools=b)).strictness(request)
    assert met == wanted


@given(
    _maps(st.one_of(plain_leaves, pattern_leaves)),
    _maps(st.one_of(plain_leaves, pattern_leaves)),
    tool_requests,
)
def test_tools_with_patterns_never_meet_in_more(
    a: ToolRules, b: ToolRules, request: AnyRequest
) -> None:
    """Patterns on subjects, too."""
    wanted, met = _Law(Policy(tools=a), Policy(tools=b)).strictness(request)
    assert met >= wanted


policies = st.builds(
    Policy,
    default=st.sampled_from(("allow", "deny")),
    fs=st.one_of(st.none(), fs_policies),
    net=st.one_of(st.none(), net_policies),
    shell=st.one_of(st.none(), shell_policies),
    env=st.one_of(st.none(), env_policies),
    tools=st.one_of(st.none(), _maps(plain_leaves)),
)
requests_of_any_kind = st.one_of(
    path_requests, net_requests, env_requests, shell_requests, tool_requests
)


@given(policies, policies, policies, requests_of_any_kind)
def test_meeting_is_idempotent_associative_and_never_widens(
    a: Policy, b: Policy, c: Policy, request: AnyRequest
) -> None:
    """Whole policies, three of them, in either grouping."""
    assert meet(a, a) == a
    wanted = max(STRICTNESS[compile(each).decide(request).verdict] for each in (a, b, c))
    left = compile(meet(meet(a, b), c)).decide(request)
    right = compile(meet(a, meet(b, c))).decide(request)
    assert STRICTNESS[left.verdict] >= wanted
    assert STRICTNESS[right.verdict] >= wanted
    if not isinstance(request, ProcessRequest):
        assert left.verdict == right.verdict
