"""How a long-lived process treats its garbage collector."""

import gc


def settle() -> None:
    """Leaves what start-up made out of every later collection, and collects more rarely.

    Servers keep large tables that never form cycles; walking them again and again is the longest pause they know.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
