"""What of a workspace is accepted, and how that changes without ever being half changed."""
