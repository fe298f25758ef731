"""check_dashboard.py DASHBOARD.json METRICS.md: the dashboard can be loaded, and every metric and
label that its queries name is documented."""

import json
import re
import sys

ROW = re.compile(r"^\| `(encore:[a-z0-9_]+)` \| (\w+) \| [^|]* \|([^|]*)\|")
NAME = re.compile(r"encore:[a-zA-Z0-9_]+")
# A selector's labels, and those of `by (...)`.
SELECTED = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
# Of every series; `instance` is added by Prometheus.
COMMON = {"model_name", "instance"}


def documented(path):
    """{series name: labels}, with the three series of each histogram."""
    series = {}
    with open(path, encoding="utf-8") as page:
        for line in page:
            match = ROW.match(line)
            if not match:
                continue
            name, kind, labels = match.groups()
            labels = set(re.findall(r"`([a-z_]+)`", labels)) | COMMON
            if kind == "histogram":
                series[name + "_bucket"] = labels | {"le"}
                series[name + "_sum"] = series[name + "_count"] = labels
            else:
                series[name] = labels
    return series


def panels_of(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def check_query(where, query, series, errors):
    names = NAME.findall(query)
    if not names:
        errors.append(f"{where}: no metric in {query}")
    known = set(COMMON)
    for name in names:
        if name not in series:
            errors.append(f"{where}: {name} is not in the documentation")
        known |= series.get(name, set())
    used = set(SELECTED.findall(query))
    for group in GROUPED.findall(query):
        used |= {label.strip() for label in group.split(",")}
    for label in sorted(used - known):
        errors.append(f"{where}: no metric of {query} has the label {label}")
    if query.count("(") != query.count(")") or query.count("{") != query.count("}"):
        errors.append(f"{where}: brackets of {query}")


def check_places(panels, errors):
    """Every panel has its own place on the grid of 24 columns."""
    taken = {}
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] + place["w"] > 24:
            errors.append(f"{panel['title']}: wider than the page")
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["title"])
                if other != panel["title"]:
                    errors.append(f"{panel['title']} lies on {other}")
                    return


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        dashboard = json.load(file)
    series = documented(sys.argv[2])
    assert len(series) > 40, "the documentation's tables were not found"
    errors = []
    panels = list(panels_of(dashboard))
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        errors.append("two panels have one id")
    check_places(panels, errors)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    queries = 0
    for panel in panels:
        for target in panel.get("targets", []):
            queries += 1
            where = panel["title"]
            check_query(where, target["expr"], series, errors)
            if target["datasource"]["uid"] != "${datasource}":
                errors.append(f"{where}: the data source is fixed")
            for variable in re.findall(r"\$([a-z]+)", target["expr"]):
                if variable not in variables:
                    errors.append(f"{where}: there is no variable {variable}")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            name = NAME.findall(variable["definition"])[0]
            if name not in series:
                errors.append(f"variable {variable['name']}: {name} is not in the documentation")
    if queries < 20:
        errors.append(f"only {queries} queries")
    # What somebody on call needs to see.
    text = json.dumps(dashboard)
    for name in (
        "encore:num_requests_running",
        "encore:num_requests_waiting",
        "encore:time_to_first_token_seconds_bucket",
        "encore:inter_token_latency_seconds_bucket",
        "encore:e2e_request_latency_seconds_bucket",
        "encore:kv_cache_usage_perc",
        "encore:prefix_cache_hits_total",
        "encore:graph_replays_total",
        "encore:eager_fallbacks_total",
        "encore:step_seconds_total",
        "encore:requests_refused_total",
    ):
        if name not in text:
            errors.append(f"nothing shows {name}")
    print("\n".join(errors) or f"{queries} queries in {len(panels)} panels")
    return 1 if errors else 0


sys.exit(main())
