"""Did you mean."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like a misspelled word, None when none is like it; case does not count."""
    # Only a failing run needs difflib.
    from difflib import get_close_matches

    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    # Long words are cut: the comparison takes time with the square of their length.
    found = get_close_matches(word[:100].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """` (did you mean "hidden_size"?)`, with a leading space, or nothing."""
    near = nearest(word, candidates)
    return f' (did you mean "{near}"?)' if near else ""
