"""Asking a person: calls that wait for a permission, and questions of the model.

May import `store`, `plugin` and what stands before them. Begin with `permissions.py`; `settings/permission.py` decides
what the rules say.
"""
