"""The flagships: plugins that ship with instar and use only its public door, `instar.plugin`."""
