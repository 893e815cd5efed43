"""Filters: each takes the scores of the next token and what was written, and rules tokens out or re-weights them.

`usual` has those that a search has settings for. Beside it, one file for each that a search names in `filters`: the
folder is the registry.
"""

from regard.decode.filters.shapes import shapes
from regard.decode.filters.usual import Context, Demands, Filter, explain, rules, special_tokens

__all__ = ["Context", "Demands", "Filter", "explain", "rules", "shapes", "special_tokens"]
