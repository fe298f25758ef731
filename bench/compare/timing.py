"""Summaries of repeated timings, shared by the scripts of this folder."""

import statistics


def summary(rates):
    """Tokens a second over several runs; `best` is the least disturbed one."""
    return {
        "tokens_per_second": round(statistics.median(rates), 2),
        "best": round(max(rates), 2),
        "deviation": round(statistics.pstdev(rates), 2),
        "runs": len(rates),
    }
