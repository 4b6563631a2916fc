"""Which names and addresses a box is answered: the pure parts of its resolver."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axonkernel.box.caps import net_plan
from axonkernel.box.model import NetPlan
from axonkernel.box.resolver.admitting import Admission
from axonkernel.box.resolver.flow import BURST, Flow
from axonkernel.box.resolver.granted import Granted, is_host_name
from axonkernel.box.resolver.hostconf import HostConf, Settings, parse
from axonkernel.box.resolver.sets import Full, Sets
from axonkernel.box.resolver.spans import Span, atoms, less
from axonkernel.policy.model import NetPolicy
from axonkernel.policy.parse import parse as parse_policy
from axonkernel.policy.request import ConnectRequest
from axonkernel.policy.rules.net import NetRules, canonical_target


def policy(**net: Any) -> NetPolicy:
    found = parse_policy({"net": net}, base="/ws", source="test").net
    assert found is not None
    return found


def granted(**net: Any) -> Granted:
    return Granted(net_plan(policy(**net)))


def tcp(low: int, high: int = 0) -> Span:
    return Span("tcp", low, high or low)


# -- spans ------------------------------------------------------------------------------------

PORT = st.integers(1, 40)
SPANS = st.lists(
    st.tuples(st.sampled_from(["tcp", "udp"]), PORT, PORT).map(
        lambda t: Span(t[0], min(t[1:]), max(t[1:]))
    ),
    max_size=6,
)


def ports(spans: Any) -> set[tuple[str, int]]:
    return {(s.protocol, port) for s in spans for port in range(s.low, s.high + 1)}


@given(SPANS, SPANS, SPANS)
def test_spans_are_sets_of_ports(spans: list[Span], others: list[Span], edges: list[Span]) -> None:
    """``less`` takes away exactly; ``atoms`` keeps all, and two of one cut never overlap."""
    assert ports(less(spans, others)) == ports(spans) - ports(others)
    edges = [*edges, *spans, *others]
    one, two = (list(atoms(some, edges)) for some in (spans, others))
    assert ports(one) == ports(spans)
    for a in one:
        assert all(a == b or not ports([a]) & ports([b]) for b in two)


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("api.test", [tcp(443), Span("udp", 443, 443)]),
        ("a.wild.test", [tcp(80, 90)]),
        ("a.b.wild.test", [tcp(80, 90)]),
        ("wild.test", []),
        ("evil-wild.test", []),
        ("a.wild.test.evil.test", []),
        ("x.api.test", []),
        ("no.wild.test", [tcp(80, 84), tcp(86, 90)]),
        ("other.test", []),
    ],
)
def test_a_grant_is_a_name_or_what_lies_below_one(name: str, found: list[Span]) -> None:
    """Labels count, the apex needs its own entry, and what is denied is taken out."""
    allow = ["api.test", "api.test/udp", "*.wild.test:80-90"]
    spans = granted(allow=allow, deny=["no.wild.test:85", "*.api.test:*"]).spans(name)
    assert ports(spans) == ports(found)


NAMES = st.lists(st.sampled_from("a b c".split()), min_size=1, max_size=4).map(".".join)
ENTRY = st.tuples(
    st.one_of(NAMES, NAMES.map("*.{}".format), st.just("*"), st.just("public")),
    st.sampled_from([":443", ":*", ":80-90", ":85/udp", ""]),
).map("".join)


@settings(max_examples=40)
@given(st.lists(ENTRY, max_size=4), st.lists(ENTRY, max_size=3), st.lists(ENTRY, max_size=2), NAMES)
def test_a_box_answers_what_the_mediator_allows(
    allow: list[str], deny: list[str], escalate: list[str], name: str
) -> None:
    """For every name, port and protocol: allowed by the rules is granted by the resolver, and
    what a person is asked about there is asked about here."""
    net = policy(allow=allow, deny=deny, escalate=escalate)
    rules = NetRules(net, layer="policy", absent="")
    found = Granted(net_plan(net))
    spans = ports(found.spans(name))
    asked = False
    for protocol in ("tcp", "udp"):
        for port in (1, 79, 80, 85, 90, 91, 443, 65535):
            request = ConnectRequest(name, port, protocol)  # type: ignore[arg-type]
            verdict = rules.judge(request, canonical_target(name)).verdict
            assert ((protocol, port) in spans) is (verdict == "allow"), (protocol, port)
            asked |= verdict == "escalate"
    assert not asked or found.asks(name)


def test_with_everything_allowed_only_denied_names_are_not() -> None:
    """``allow = true`` grants every name at every port, but one that is denied at any: what it
    leads to could not be kept closed."""
    found = granted(allow=True, deny=["*.evil.test"])
    assert ports(found.spans("a.test")) >= {("tcp", 1), ("udp", 65535)}
    assert found.spans("x.evil.test") == ()


def test_a_person_adds_one_name_for_some_ports() -> None:
    """And no other."""
    found = granted(allow=[], escalate=["*.test:443"])
    assert found.asks("a.test") and found.spans("a.test") == ()
    found.add("a.test", "tcp", "443")
    assert found.spans("a.test") == (tcp(443),) and found.spans("b.test") == ()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("a.test", True), ("_dmarc.a-b.test", True), ("xn--bcher-kva.test", True), ("a", True),
        ("", False), ("a..test", False), (".test", False), ("a.test.", False), ("-a.test", False),
        ("a\\000.test", False), ("a b.test", False), ("a" * 64, False), ("a." * 127 + "aa", False),
    ],
)  # fmt: skip
def test_only_names_of_hosts_are_asked_about(name: str, is_one: bool) -> None:
    """As they are judged elsewhere."""
    assert is_host_name(name) is is_one


# -- names below a star -----------------------------------------------------------------------


def test_what_stands_for_a_star_has_the_length_of_a_name() -> None:
    """Data in labels is refused; an exact grant takes any name."""
    long = "a" * 63
    found = granted(allow=["*.wild.test", f"{long}.{long}.api.test"])
    flow = Flow(clock=lambda: 0.0)
    assert flow.takes("cdn-1.eu-west.wild.test", found)
    assert not flow.takes(f"{long}.{long}.wild.test", found)
    assert not flow.takes("a.b.c.d.e.f.g.wild.test", found)
    assert flow.takes(f"{long}.{long}.api.test", found)


def test_new_names_below_a_star_are_counted() -> None:
    """So many at once, then a few a second; one that is known costs nothing."""
    now = [0.0]
    found = granted(allow=["*.wild.test", "api.test"])
    flow = Flow(clock=lambda: now[0])
    assert all(flow.takes(f"n{n}.wild.test", found) for n in range(BURST))
    assert not flow.takes("one-more.wild.test", found)
    assert flow.takes("n4000.wild.test", found) and flow.takes("api.test", found)
    now[0] = 1.0
    assert sum(flow.takes(f"later{n}.wild.test", found) for n in range(50)) == 10


# -- addresses --------------------------------------------------------------------------------

SPANS_443 = (tcp(443),)


@pytest.mark.parametrize(
    ("address", "kept", "added"),
    [
        ("45.90.10.1", True, True),
        ("2a0e:97c0:90::1", True, True),
        ("10.0.0.9", False, False),
        ("10.0.0.5", True, False),
        ("192.168.7.7", True, False),
        ("127.0.0.1", False, False),
        ("0.0.0.0", False, False),
        ("169.254.169.254", False, False),
        ("100.100.100.200", False, False),
        ("224.0.0.1", False, False),
        ("::1", False, False),
        ("fe80::1", False, False),
        ("fd00:ec2::254", False, False),
        ("::ffff:45.90.10.1", False, False),
        ("::ffff:127.0.0.1", False, False),
        ("::127.0.0.1", False, False),
        ("64:ff9b::2d5a:a01", True, True),
        ("64:ff9b::7f00:1", False, False),
        ("64:ff9b::a9fe:a9fe", False, False),
        ("2002:7f00:1::", False, False),
        ("2002:2d5a:a01::1", True, True),
        ("2001:0:1:2:3:4:5:6", False, False),
        ("::ffff:0:a00:9", False, False),
        ("200::5", False, False),
        ("45.90.11.1", False, False),
        ("45.90.12.1", True, True),
        ("64:ff9b::2d5a:b01", False, False),
    ],
)
def test_a_name_leads_to_public_addresses(address: str, kept: bool, added: bool) -> None:
    """Private ones need a literal grant, of that very address, which the table holds already;
    IPv4 inside IPv6 is judged as IPv4; what is denied for all granted ports is left out."""
    admission = Admission(
        net_plan(
            policy(
                allow=["a.test", "10.0.0.5:22", "192.168.0.0/16:80"],
                deny=["45.90.11.0/24:*", "45.90.12.0/24:80"],
            )
        )
    )
    verdict = admission.judge(address, SPANS_443)
    assert (verdict.kept, bool(verdict.spans)) == (kept, added)


def test_private_addresses_by_their_word_and_all_of_them() -> None:
    """``private`` grants them but for metadata, ``allow = true`` everything."""
    word = Admission(net_plan(policy(allow=["a.test", "private:443"])))
    assert word.judge("10.0.0.9", SPANS_443).kept
    assert not word.judge("169.254.169.254", SPANS_443).kept
    everything = Admission(net_plan(policy(allow=True, deny=["10.0.0.9:*", "10.0.0.9:*/udp"])))
    assert everything.judge("10.0.0.8", SPANS_443).kept
    assert not everything.judge("10.0.0.9", SPANS_443).kept


def test_an_address_that_is_open_where_its_name_is_denied_is_not_told() -> None:
    """By a literal grant, by a word or with everything open; at other ports it is."""
    for allow in (["a.test:80", "45.90.10.0/24:443"], ["a.test:80", "public"], True):
        admission = Admission(net_plan(policy(allow=allow)))
        assert not admission.judge("45.90.10.1", (tcp(80),), [tcp(443)]).kept, allow
        assert admission.judge("45.90.10.1", (tcp(80),), []).kept
    admission = Admission(net_plan(policy(allow=["a.test:80", "45.90.10.0/24:443"])))
    assert admission.judge("45.90.10.1", (tcp(80),), [tcp(81)]).kept


# -- the words public and private in the table ------------------------------------------------


def test_public_and_private_are_networks_of_the_table() -> None:
    """Apart from each other, and without metadata."""
    from ipaddress import ip_address, ip_network

    def holds(word: str, address: str) -> bool:
        triples = net_plan(policy(allow=[f"{word}:443"])).allow
        where = ip_address(address)
        return any(
            where in ip_network(a) for a, _, _ in triples if ip_network(a).version == where.version
        )

    for address in ("45.90.10.1", "8.8.8.8", "2a0e:97c0:90::1"):
        assert holds("public", address) and not holds("private", address)
    for address in ("10.1.2.3", "192.168.1.1", "fd12::1"):
        assert holds("private", address) and not holds("public", address)
    for address in ("169.254.169.254", "100.100.100.200", "fe80::1", "fd00:ec2::254"):
        assert not holds("private", address) and not holds("public", address)
    for address in ("64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::1"):
        assert not holds("public", address)


# -- the sets ---------------------------------------------------------------------------------


class Kernel:
    """Takes elements as the table would."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[Any], int, str]] = []

    def add(self, elements: list[Any], timeout_s: int, into: str) -> None:
        self.calls.append((elements, timeout_s, into))


def test_an_element_is_put_once_and_renewed_in_time() -> None:
    """Asked for again while it holds for long enough: nothing is sent."""
    now, kernel = [0.0], Kernel()
    sets = Sets(NetPlan(), kernel.add, clock=lambda: now[0])
    sets.let(["45.90.10.1"], [tcp(443)], 30)
    now[0] = 4.0
    sets.let(["45.90.10.1"], [tcp(443)], 30)
    assert kernel.calls == [([("45.90.10.1", "tcp", "443")], 35, "allow")]
    now[0] = 6.0
    sets.let(["45.90.10.1", "45.90.10.2"], [tcp(443)], 30)
    assert len(kernel.calls) == 2 and len(kernel.calls[1][0]) == 2


def test_ranges_and_relayed_ports_have_sets_of_their_own() -> None:
    """UDP is not relayed."""
    kernel = Kernel()
    spans = [tcp(443), tcp(8000, 8100), Span("udp", 443, 443)]
    Sets(NetPlan(relayed=True), kernel.add).let(["45.90.10.1"], spans, 30)
    assert [into for _, _, into in kernel.calls] == ["named", "namedspan", "allow"]


def test_the_sets_are_bounded_and_old_elements_make_room() -> None:
    """A name whose owner answers without end fills nothing."""
    now, kernel = [0.0], Kernel()
    sets = Sets(NetPlan(), kernel.add, most=3, clock=lambda: now[0])
    sets.let(["1.1.1.1", "1.1.1.2", "1.1.1.3"], [tcp(443)], 30)
    with pytest.raises(Full):
        sets.let(["1.1.1.4"], [tcp(443)], 30)
    now[0] = 36.0
    sets.let(["1.1.1.4"], [tcp(443)], 30)
    assert len(sets) == 1


# -- the host's settings ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Settings()),
        ("nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch corp.test lan\n",
         Settings(("127.0.0.53",), ("corp.test", "lan"))),
        ("# x\nnameserver 9.9.9.9 ; y\nnameserver 2001:db8::1\nnameserver fe80::1%eth0\n",
         Settings(("9.9.9.9", "2001:db8::1"))),
        ("nameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3\nnameserver 1.1.1.4\n",
         Settings(("1.1.1.1", "1.1.1.2", "1.1.1.3"))),
        ("domain corp.test.\noptions timeout:1 attempts:9 timeout:x\n",
         Settings(search=("corp.test",), timeout_s=1.0, attempts=3)),
        ("options timeout:60\nnameserver\nnameserver nonsense\n", Settings(timeout_s=5.0)),
    ],
)  # fmt: skip
def test_resolv_conf_is_read_as_libc_reads_it(text: str, expected: Settings) -> None:
    """Within bounds; what is not understood counts for nothing."""
    assert parse(text) == expected


def test_the_settings_follow_the_file(tmp_path: Any) -> None:
    """Read again when it changes, is replaced or vanishes; a resolver of the policy's own wins."""
    now = [0.0]
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 9.9.9.9\n")
    conf = HostConf("", str(path), clock=lambda: now[0])
    own = HostConf("1.1.1.1", str(path), clock=lambda: now[0])
    assert conf.now().servers == ("9.9.9.9",) and own.now().servers == ("1.1.1.1",)
    path.with_name("new").write_text("nameserver 9.9.9.10\nsearch a.test\n")
    path.with_name("new").rename(path)
    assert conf.now().servers == ("9.9.9.9",)
    now[0] = 1.5
    assert conf.now().servers == ("9.9.9.10",) and own.now().search == ("a.test",)
    path.unlink()
    now[0] = 3.0
    assert conf.now() == Settings()
