"""Names from inside a box: what is granted is found and reached, nothing else is asked about.

The far side counts every question and every packet.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, Run
from lab.internet import ADDRESSES, Internet

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ASKING = Path(__file__).with_name("asking.py").read_text()
ONE4, TWO4, ONE6 = (ADDRESSES[name] for name in ("one4", "two4", "one6"))
PRIVATE, METADATA = ADDRESSES["private4"], ADDRESSES["metadata4"]
NO_NAME = "gaierror -2"
NO_ADDRESS = "gaierror -5"


def run(near: Boxed, tries: Iterable[Any], *grants: str, policy: str = "") -> tuple[list[Any], Run]:
    """What came of each attempt in one box, and how it ended."""
    words = ["--read", ".", *(word for entry in grants for word in ("--net", entry))]
    if policy:
        path = near.root / "p.toml"
        path.write_text(f'[fs]\nread = ["{near.project}"]\n[net]\n{policy}')
        words = ["--policy", str(path)]
    command = [PYTHON, "-ISc", ASKING, json.dumps([*tries])]
    ended = near.exec(*words, command=command)
    assert ended.code == 0, ended.err
    return [json.loads(line)[0] for line in ended.text.splitlines()], ended


def asked(net: Internet) -> set[str]:
    """The names that the far side was asked about."""
    return {record.data.split()[0] for record in net.records() if record.kind == "dns"}


def test_granted_names_are_found_and_reached_and_no_others(near: Boxed, net: Internet) -> None:
    """Exact names, names below a star, aliases, both families, ports and ranges of each; and
    what was refused is told by name."""
    tries = [
        ["lookup", "api.test"], ["lookup", "a.b.wild.test"], ["lookup", "alias.test"],
        ["lookup", "v6only.test"], ["lookup", "API.Test."],
        ["reach", "api.test", 443], ["reach", "v6only.test", 7], ["reach", "alias.test", 8080],
        ["reach", "api.test", 7], ["reach", "alias.test", 7], ["reach", TWO4, 443],
        ["lookup", "web.test"], ["lookup", "wild.test"], ["lookup", "x.api.test"],
        ["lookup", "evil-wild.test"], ["lookup", "secret.evil.test"], ["reach", "web.test", 443],
    ]  # fmt: skip
    net.name("*.b.wild.test", TWO4)
    answers, ended = run(
        near, tries, "api.test", "*.wild.test:80", "alias.test:8000-8100", "v6only.test:*"
    )
    both = sorted([ONE4, ONE6])
    assert answers[:5] == [both, [TWO4], both, [ADDRESSES["three6"]], both]
    assert answers[5:8] == ["ok"] * 3
    assert answers[8:11] == ["ConnectionRefusedError"] * 3
    assert answers[11:] == [NO_NAME] * 6
    assert asked(net) == {"api.test", "a.b.wild.test", "alias.test", "v6only.test"}
    reached = {(r.address, r.port) for r in net.records() if r.kind == "packet-tcp"}
    assert reached == {(ONE4, 443), (ADDRESSES["three6"], 7), (ONE4, 8080)} or reached == {
        (ONE6, 443), (ADDRESSES["three6"], 7), (ONE6, 8080)
    }  # fmt: skip
    told = {(each["name"], each["protocol"], each["port"]) for each in ended.status["denials"]}
    assert {("web.test", "dns", 0), ("secret.evil.test", "dns", 0)} <= told
    # The name that led to a refused address is known.
    assert ("a.b.wild.test", "tcp", 443) in told
    assert {("alias.test", "tcp", 7), ("api.test", "tcp", 7)} & told


def test_a_cname_target_is_no_grant_of_its_own(near: Boxed, net: Internet) -> None:
    """It counts for the answer it is in; asked for by itself it is refused, and a denied one
    leads nowhere."""
    net.name("to-denied.test", alias="web.test")
    tries = [["lookup", "alias.test"], ["lookup", "api.test"], ["lookup", "to-denied.test"]]
    policy = 'allow = ["alias.test", "to-denied.test"]\ndeny = ["web.test"]\n'
    answers, _ = run(near, tries, policy=policy)
    assert answers[:2] == [sorted([ONE4, ONE6]), NO_NAME]
    assert answers[2] in (NO_NAME, NO_ADDRESS)
    assert asked(net) == {"alias.test", "to-denied.test"}


def test_no_name_leads_to_a_private_address(near: Boxed, net: Internet) -> None:
    """Private, loopback, link-local, metadata, mapped: dropped from the answer, told, and never
    opened; a mixed answer keeps the rest; a literal grant of that address brings it back."""
    net.name("loop.test", "127.0.0.1", "::1")
    net.name("mapped.test", f"::ffff:{TWO4}")
    names = ["private.test", "metadata.test", "loop.test", "mapped.test"]
    tries: list[list[Any]] = [["lookup", name] for name in [*names, "mixed.test"]]
    tries += [["reach", name, 443] for name in names]
    tries += [["reach", PRIVATE, 443], ["reach", METADATA, 443]]
    answers, ended = run(near, tries, *names, "mixed.test")
    assert answers[:5] == [NO_ADDRESS] * 4 + [[ONE4]]
    assert answers[5:9] == [NO_ADDRESS] * 4
    assert answers[9:] == ["ConnectionRefusedError"] * 2
    assert not [r for r in net.records() if r.kind == "packet-tcp"]
    dropped = {each["address"] for each in ended.status["denials"] if each["protocol"] == "dns"}
    assert {PRIVATE, METADATA, "127.0.0.1", "::1"} <= dropped

    again = [["lookup", "private.test"], ["reach", "private.test", 443], ["reach", METADATA, 443]]
    answers, _ = run(near, again, "private.test", f"{PRIVATE}:443")
    assert answers == [[PRIVATE], "ok", "ConnectionRefusedError"]


def test_an_answer_that_turns_private_opens_nothing(near: Boxed, net: Internet) -> None:
    """Rebinding: public first, private and loopback later, under one name with no time to
    live."""
    net.name("turns.test", ONE4, PRIVATE, "127.0.0.1", ttl_s=0, rotate=True)
    tries = [["lookup", "turns.test"]] * 6 + [["reach", PRIVATE, 443]]
    answers, _ = run(near, tries, "turns.test")
    assert [ONE4] in answers and NO_ADDRESS in answers
    assert all(answer in ([ONE4], NO_ADDRESS) for answer in answers[:6])
    assert answers[-1] == "ConnectionRefusedError"
    assert not net.seen("packet-tcp", PRIVATE)


def test_data_does_not_leave_in_questions(near: Boxed, net: Internet) -> None:
    """Other types, other names, labels full of data, odd characters, other resolvers: refused
    at once, and nobody outside hears of one."""
    data = "a" * 63
    refused = [
        ["ask", "api.test", "TXT"], ["ask", "api.test", "NULL"], ["ask", "api.test", "ANY"],
        ["ask", "api.test", "MX", "tcp"], ["ask", f"{data}.{data}.wild.test", "A"],
        ["ask", f"{data}.api.test", "A", "edns"], ["ask", "x.evil.test", "TXT", "tcp"],
        ["ask", "a\0b.wild.test", "A"], ["ask", "api.test\0.wild.test", "A"],
        ["ask", "1.10.90.45.in-addr.arpa", "PTR"],
    ]  # fmt: skip
    answers, ended = run(near, [*refused, ["ask", "ApI.tEsT", "A"]], "api.test", "*.wild.test")
    assert [answer[0] for answer in answers[:4]] == ["REFUSED"] * 4
    assert all(answer[0] in ("REFUSED", "NXDOMAIN") for answer in answers[:-1])
    assert answers[-1] == ["NOERROR", False, 1, True]
    assert asked(net) == {"api.test"}
    told = {(each["name"], each["protocol"]) for each in ended.status["denials"]}
    assert {("api.test", "dns/TXT"), ("api.test", "dns/ANY"), ("x.evil.test", "dns/TXT")} <= told
    assert (f"{data}.{data}.wild.test", "dns") in told


def test_answers_that_are_long_many_or_ever_others(near: Boxed, net: Internet) -> None:
    """Fifty addresses of one name: cut for a plain datagram, whole with EDNS and over TCP, and
    all can be reached. Each lookup of another name brings another address, and each can be
    reached. 2,000 questions that wait at one time are all answered; the same ones are asked
    outside together."""
    net.name("fifty.test", *(f"45.90.10.{n}" for n in range(1, 51)))
    tries: list[list[Any]] = [["ask", "fifty.test", "A", how] for how in ("udp", "edns", "tcp")]
    tries += [["reach", address, 443] for address in (ONE4, TWO4)]
    tries += [["reach", "rotating.test", 7]] * 8
    names = [f"n{n}.wild.test" for n in range(400)]
    tries.append(["many", *names * 5])
    answers, _ = run(near, tries, "fifty.test", "rotating.test:7", "*.wild.test")
    assert answers[0][:3] == ["NOERROR", True, 0]
    assert answers[1][:3] == ["NOERROR", False, 50] and answers[2] == ["NOERROR", False, 50]
    assert answers[3:-1] == ["ok"] * 10
    assert len({r.address for r in net.records() if r.kind == "packet-tcp" and r.port == 7}) == 2
    assert answers[-1] == 2000
    assert len(asked(net)) == 402


@pytest.mark.parametrize(
    ("dns", "found"),
    [("allowlist", NO_NAME), ("open", [TWO4]), ("off", "gaierror")],
)
def test_which_names_are_answered(near: Boxed, net: Internet, dns: str, found: Any) -> None:
    """``open`` answers any name and opens only what is granted; ``off`` answers none."""
    tries = [["lookup", "web.test"], ["reach", TWO4, 443], ["reach", "api.test", 443]]
    answers, _ = run(near, tries, policy=f'allow = ["api.test"]\ndns = "{dns}"\n')
    lookup, address, granted = answers
    assert address == "ConnectionRefusedError" if dns != "off" else address != "ok"
    if dns == "off":
        assert lookup.startswith(found) and granted.startswith(found) and asked(net) == set()
    else:
        assert (lookup == found or (found == [TWO4] and TWO4 in lookup)) and granted == "ok"


def test_short_names_are_completed_as_the_host_does(near: Boxed, net: Internet) -> None:
    """By the domains of its resolv.conf, and only where the whole name is granted."""
    tries = [["lookup", "web"], ["lookup", "many"], ["reach", "web", 443]]
    answers, _ = run(near, tries, "web.test")
    assert answers == [NO_NAME] * 3
    with resolv_conf(net, f"{net.resolv_conf}search test\n"):
        answers, _ = run(near, tries, "web.test")
    assert TWO4 in answers[0] and answers[1:] == [NO_NAME, "ok"]


@contextlib.contextmanager
def resolv_conf(net: Internet, text: str) -> Iterator[None]:
    """The near side with another resolv.conf, for a while."""

    def write(text: str) -> None:
        net.run(["sh", "-c", 'printf "%s" "$1" > /etc/resolv.conf', "sh", text])

    write(text)
    try:
        yield
    finally:
        write(net.resolv_conf)


#: Asks another resolver, as systemd-resolved does: one question after the other.
STUB = """
import socket, sys
near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
near.bind(("127.0.0.53", 53))
print("up", flush=True)
while True:
    question, who = near.recvfrom(4096)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.settimeout(5)
        far.connect((sys.argv[1], 53))
        far.send(question)
        near.sendto(far.recv(4096), who)
"""


def test_a_stub_on_the_hosts_own_loopback_is_asked(near: Boxed, net: Internet) -> None:
    """At the very address where a box has its resolver: the host's is not the box's."""
    words = [*near.prefix[:3], PYTHON, "-ISc", STUB, ADDRESSES["dns"]]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as stub:
        try:
            assert stub.stdout and stub.stdout.readline() == b"up\n"
            with resolv_conf(net, "nameserver 127.0.0.53\noptions edns0 trust-ad\n"):
                tries = [["reach", "api.test", 443], ["lookup", "web.test"]]
                answers, _ = run(near, tries, "api.test")
        finally:
            stub.kill()
    assert answers == ["ok", NO_NAME] and asked(net) == {"api.test"}


def test_a_resolver_of_the_policys_own_and_every_address_by_name(
    near: Boxed, net: Internet
) -> None:
    """``net.resolver`` is asked instead of the host's; ``*`` grants any name."""
    policy = f'allow = ["*:443"]\nresolver = "{ADDRESSES["three4"]}"\n'
    answers, _ = run(near, [["reach", "web.test", 443], ["reach", ONE4, 443]], policy=policy)
    assert answers == ["ok", "ConnectionRefusedError"]
    assert {r.address for r in net.records() if r.kind == "dns"} == {ADDRESSES["three4"]}


def test_a_denied_name_is_not_found_where_its_address_is_open(near: Boxed, net: Internet) -> None:
    """With ``allow = true`` and with a range: not reached by itself or as an alias; others are."""
    net.name("to-web.test", alias="web.test")
    names = ("web.test", "to-web.test", "api.test")
    tries: list[list[Any]] = [["reach", name, 443] for name in names]
    for allow in ("true", '["*:*", "45.90.10.0/24:443"]'):
        answers, _ = run(near, tries, policy=f'allow = {allow}\ndeny = ["web.test"]\n')
        assert answers[2] == "ok" and "ok" not in answers[:2], allow
        assert not net.seen("packet-tcp", TWO4), allow


def test_the_words_public_and_private(near: Boxed, net: Internet) -> None:
    """``public`` is every public address and any name, never a private one; ``private`` the
    private ones but for metadata, also by a granted name."""
    tries = [["reach", "web.test", 443], ["reach", ONE4, 443], ["reach", PRIVATE, 443],
             ["lookup", "private.test"]]  # fmt: skip
    answers, _ = run(near, tries, "public")
    assert answers == ["ok", "ok", "ConnectionRefusedError", NO_ADDRESS]
    tries = [["reach", "private.test", 443], ["reach", PRIVATE, 443], ["reach", METADATA, 443],
             ["reach", ONE4, 443]]  # fmt: skip
    answers, _ = run(near, tries, "private", "private.test")
    assert answers == ["ok", "ok", "ConnectionRefusedError", "ConnectionRefusedError"]
