"""The demonstration: an agent that tries everything, in a box, watched from outside.

``stage`` builds a temporary project with a secret and opens the eyes outside the box;
``agent`` is the agent, ``mediated`` and ``below`` are what it tries; ``attempts`` lists all of
it with what must come of it; ``runs`` makes the boxes; ``judge`` compares, ``table`` prints.
No outcome is taken on the agent's word where something outside can see it.
"""
