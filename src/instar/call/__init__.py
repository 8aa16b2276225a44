"""One tool call: prepared, run and reported, whether the model asked for it or a tool that it called."""
