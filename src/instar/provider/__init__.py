"""Model providers: adapters for wire protocols, the catalogue of models, and how a reference finds both."""
