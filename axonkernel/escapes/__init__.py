"""The escape test: every known way out of a box, tried on this machine and this policy.

``tries`` holds the attempts, a file for each class; each is ordinary code that is run twice,
outside the box where it must get through (or it would prove nothing) and inside, where it must
not. ``stage`` makes the markers, secrets, listeners and processes they are after, in a temporary
folder of their own; ``runner`` runs them inside, each in a process that may crash or hang;
``trial`` does all of it; ``plays`` are attempts that need a hand outside, such as a save by an
editor or the death of the supervisor; ``judge`` tells from outside what came of each.
"""
