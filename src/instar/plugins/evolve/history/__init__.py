"""What happened to a workspace: its commits, what they say of where they come from, and what left none."""
