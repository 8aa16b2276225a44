"""How what was installed does in its first calls, what was predicted of it, and when trying stops."""
