"""Names of options, and what is said about those that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def refuse_unknown(of: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises an error about the first option that is not known, with the one that was probably meant."""
    known = list(known)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(f'`{it}`' for it in known)}"
            raise TypeError(f"`{of}` has no option `{name}`; {hint}")
