"""The rules of each block of a policy, compiled: one file per kind of request."""
