"""Brokered programs: what a box may start only through its supervisor, which judges each call.

In the box a shim lies at the program's name (box/shim). It sends a call over a socket
(``wire``); ``listener`` takes it in the supervisor, ``client`` is the shim's part for Python
code in the box.
"""
