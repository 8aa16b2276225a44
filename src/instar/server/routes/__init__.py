"""What the server carries out, one module for each family of operations. `instar.server.app` lists the families."""
