"""Reading a shell command without running it: its words, its simple commands, what they wrap and touch."""
