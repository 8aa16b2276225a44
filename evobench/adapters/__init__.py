"""Agents that can be put into a world: one module each, with an `arena.Agent`."""
