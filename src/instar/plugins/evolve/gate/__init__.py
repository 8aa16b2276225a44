"""The gate: what a change must pass before it is installed (issue 6). One module per stage."""
