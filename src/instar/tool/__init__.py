"""The built-in tools, their registry, argument checks and output limits."""
