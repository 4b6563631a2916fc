"""The attempts, a file for each class. Standard library only: they are sent into the box."""
