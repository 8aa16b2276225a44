"""What of the agent's is used, what speaks for it, and the removal of what nothing speaks for."""
