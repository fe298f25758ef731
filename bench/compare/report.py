"""Turns the engines' JSON into rows, and rows into a table. Used by `run`."""

import os
import statistics


def shown_command(command, root):
    """The command with paths relative to the repository and the interpreter by name."""
    words = []
    for word in map(str, command):
        if os.path.basename(word).startswith("python"):
            word = "python"
        elif word.startswith(str(root)):
            word = os.path.relpath(word, root)
        words.append(word)
    return " ".join(words)


def measurements(output):
    """(measure, runner, median tokens a second) of each figure in one engine's output.

    llama.cpp's and transformers' scripts print `prefill` and `decode`; `encore bench --json`
    prints `results`, one for each test, batch size and runner.
    """
    if "results" not in output:
        for phase in ("prefill", "decode"):
            part = output[phase]
            yield f"{phase} {part['tokens']}", "", part["tokens_per_second"]
        return
    words = {"prompt": "prefill", "generate": "decode"}
    for result in output["results"]:
        if "skipped" not in result:
            test, length = result["test"].split()
            yield f"{words[test]} {length}", result["runner"], result["tokens_per_s"]["median"]


def rows(samples, read_gb_per_second):
    """One row for each model, phase, engine and runner, over all rounds, fastest first."""
    grouped = {}
    for model, size, engine, output in samples:
        for measure, runner, rate in measurements(output):
            name = output.get("engine", engine) if engine != "Encore" else "Encore"
            key = (model, size, measure, name, runner)
            grouped.setdefault(key, []).append(rate)
    result = []
    for (model, size, measure, engine, runner), rates in grouped.items():
        row = {"model": model, "measure": measure, "engine": engine, "runner": runner,
               "median": round(statistics.median(rates), 2), "best": round(max(rates), 2),
               "deviation": round(statistics.pstdev(rates), 2), "rounds": len(rates)}
        if measure.startswith("decode"):
            achieved = row["median"] * size / 1e9
            row["read_gb_per_second"] = round(achieved, 2)
            row["share_of_read_bandwidth"] = round(achieved / read_gb_per_second, 3)
        result.append(row)
    order = {"prefill": 0, "decode": 1}
    return sorted(result, key=lambda r: (r["model"], order[r["measure"].split()[0]], -r["median"]))


def markdown(result):
    device = result["device"]
    lines = [
        f"# {result['name']}", "",
        f"- Device: {device['cpu']}, {device['cores']} cores, {device['memory_gib']} GiB, "
        f"{', '.join(device['features'])}; {result['threads']} threads",
        f"- Limit: {result['read_gb_per_second']} GB/s read from memory, measured in the same run",
        f"- Commit: {result['commit']}, {result['date']}",
        f"- Command: `{result['command']}`", "",
        "| model | measure | engine | runner | tokens/s | best | ± | share of read bandwidth |",
        "|---|---|---|---|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        share = row.get("share_of_read_bandwidth")
        shown = "" if share is None else f"{100 * share:.0f} %"
        lines.append(f"| {row['model']} | {row['measure']} | {row['engine']} | {row['runner']} | "
                     f"{row['median']} | {row['best']} | {row['deviation']} | {shown} |")
    lines += ["", "Tokens/s is the median over rounds in which the engines took turns; the share "
              "counts each weight file as read once a token.", ""]
    return "\n".join(lines)
