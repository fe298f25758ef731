"""Reads the server's metrics from stdin with Prometheus' own parser and checks what they mean."""

import math
import sys

from prometheus_client.parser import text_string_to_metric_families

MODEL = 'a "quoted" \\ name\nof two lines'


def check_histogram(family):
    """Buckets never shrink towards +Inf, and the last one counts everything."""
    buckets = [s for s in family.samples if s.name == family.name + "_bucket"]
    counts = [s.value for s in family.samples if s.name == family.name + "_count"]
    bounds = [float(s.labels["le"]) for s in buckets]
    assert bounds == sorted(bounds) and bounds[-1] == math.inf, (family.name, bounds)
    values = [s.value for s in buckets]
    assert values == sorted(values) and counts == [values[-1]], (family.name, values, counts)


def main():
    text = sys.stdin.read()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families) > 30, sorted(families)
    for family in families.values():
        assert family.documentation, family.name
        assert family.type in ("counter", "gauge", "histogram"), (family.name, family.type)
        assert family.samples, family.name
        for sample in family.samples:
            assert sample.labels["model_name"] == MODEL, sample
        if family.type == "histogram":
            check_histogram(family)

    def value(name, **labels):
        labels["model_name"] = MODEL
        return [
            sample.value
            for family in families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]

    expected = [
        (value("encore:num_requests_running"), 4.0),
        (value("encore:kv_cache_usage_perc"), 0.25),
        (value("encore:generation_tokens_total"), 6789.0),
        (value("encore:request_success_total", finished_reason="stop"), 21.0),
        (value("encore:requests_refused_total", status="418"), 1.0),
        (value("encore:graph_replays_total", kind="decode_graph", bucket="4"), 800.0),
        (value("encore:time_to_first_token_seconds_count"), 2.0),
        (value("encore:time_to_first_token_seconds_bucket", le="0.04"), 1.0),
        (value("encore:e2e_request_latency_seconds_sum"), 0.1),
    ]
    for found, wanted in expected:
        assert found == [wanted], (found, wanted)


main()
