"""Asking a person, where the policy says so: questions, the broker, the ways to be asked."""

from __future__ import annotations

from axonkernel.escalation.broker import Broker
from axonkernel.escalation.callback import Callback
from axonkernel.escalation.headless import Headless
from axonkernel.escalation.question import Answer, Asker, Decider, Question
from axonkernel.escalation.tty import Terminal

__all__ = ["Answer", "Asker", "Broker", "Callback", "Decider", "Headless", "Question", "Terminal"]
