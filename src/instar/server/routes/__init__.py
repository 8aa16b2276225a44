"""What the server carries out, one module for each family of operations."""
