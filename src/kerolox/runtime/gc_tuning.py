"""Garbage collector settings for long-lived processes."""

import gc


def settle() -> None:
    """Exclude all objects that exist now from later collections, and make collections rarer.

    Servers keep large tables without reference cycles; traversing them in every full collection would be their
    longest pause.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
