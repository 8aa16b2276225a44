"""The gate: what a change must pass before it is installed. One module per stage."""
