"""Narrowing, block by block. Where the exact common part cannot be written down, less is."""
