#!/usr/bin/env python3
"""Draws the dashboards as SVG from what a Prometheus has, for readers who have no Grafana at hand.

    picture.py PROMETHEUS-URL FOLDER [MINUTES [RATE-INTERVAL]]

Only what the panels say is drawn: their queries, titles, units and colours. `make dashboard-pictures` runs the
program with faults, scrapes it, and calls this.
"""

import json
import sys
import time
import urllib.parse
import urllib.request
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLUMN, LINE, GAP = 50, 27, 4  # pixels per grid unit, and between panels
COLOURS = {"green": "#56a64b", "yellow": "#e0b400", "orange": "#ff780a", "red": "#e02f44", "dark-red": "#ad0317",
           "blue": "#3274d9", "text": "#8e8e8e"}
PALETTE = ["#3274d9", "#a352cc", "#37872d", "#ff9830", "#1f9bb0", "#c4162a", "#8f3bb8", "#b877d9", "#6e9fff", "#96732c"]
STEPS = 120


class Prometheus:
    def __init__(self, url, minutes, rate):
        self.url, self.end, self.rate = url, time.time(), rate
        self.start = self.end - 60 * minutes

    def ask(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    def filled_in(self, query):
        query = query.replace("$__rate_interval", self.rate)
        for name in ("job", "namespace", "config"):
            query = query.replace(f"${name}", ".*")
        return query

    def now(self, query):
        return [(one["metric"], float(one["value"][1])) for one in self.ask("query", query=self.filled_in(query), time=self.end)]

    def over_time(self, query):
        found = self.ask("query_range", query=self.filled_in(query), start=self.start, end=self.end,
                         step=max(1, (self.end - self.start) / STEPS))
        return [(one["metric"], [(float(at), float(value)) for at, value in one["values"] if value != "NaN"]) for one in found]


def legend(pattern, labels):
    for name, value in labels.items():
        pattern = pattern.replace("{{%s}}" % name, value)
    return pattern or ", ".join(labels.values())


def shown(value, unit):
    """A number as Grafana would show it, roughly."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "dateTimeFromNow":
        return f"{shown(time.time() - value / 1000, 's')} ago"
    if unit == "s":
        for size, name in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return f"{value * 1e6:.3g} µs" if value else "0 s"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB"
    suffix = {"reqps": " req/s", "ops": " /s"}.get(unit, "")
    return (f"{value:.0f}" if value == int(value) else f"{value:.3g}") + suffix


def text(x, y, words, size=12, colour="#24292e", anchor="start", weight="normal"):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{escape(str(words))}</text>'


def fixed_colours(panel):
    overrides = panel["fieldConfig"]["overrides"]
    return {one["matcher"]["options"]: COLOURS[one["properties"][0]["value"]["fixedColor"]]
            for one in overrides if one["properties"][0]["id"] == "color"}


def threshold_colour(panel, value):
    chosen = "green"
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]:
        if step["value"] is None or value >= step["value"]:
            chosen = step["color"]
    return COLOURS[chosen]


def stat(panel, prometheus, width, height):
    unit = panel["fieldConfig"]["defaults"]["unit"]
    values = [(legend(target["legendFormat"], labels), value)
              for target in panel["targets"] for labels, value in prometheus.now(target["expr"])]
    fixed, is_fixed = fixed_colours(panel), panel["fieldConfig"]["defaults"]["color"]["mode"] != "thresholds"
    out, each = [], width / max(1, len(values))
    for index, (name, value) in enumerate(values):
        colour = fixed.get(name, COLOURS["blue"]) if is_fixed else threshold_colour(panel, value)
        middle = each * (index + 0.5)
        out.append(text(middle, height * 0.62, shown(value, unit), 22, colour, "middle", "bold"))
        out.append(text(middle, height * 0.85, name, 12, "#57606a", "middle"))
    return out


def table(panel, prometheus, width, height):
    (target,), unit = panel["targets"], panel["fieldConfig"]["defaults"]["unit"]
    names = next(one for one in panel["transformations"] if one["id"] == "organize")["options"]["renameByName"]
    found = sorted(prometheus.now(target["expr"]), key=lambda one: -one[1])
    columns = list(names)
    out, each = [], width / len(columns)
    for number, key in enumerate(columns):
        out.append(text(10 + each * number, 48, names[key], 12, "#57606a", weight="bold"))
    for line, (labels, value) in enumerate(found[: int((height - 60) / 20)]):
        for number, key in enumerate(columns):
            words = shown(value, unit) if key == "Value" else labels.get(key, "")
            colour = threshold_colour(panel, value) if key == "Value" and unit == "s" else "#24292e"
            out.append(text(10 + each * number, 70 + 20 * line, words, 12, colour))
    return out


def graph(panel, prometheus, width, height):
    unit, fixed = panel["fieldConfig"]["defaults"]["unit"], fixed_colours(panel)
    series = [(legend(target["legendFormat"], labels), points)
              for target in panel["targets"] for labels, points in prometheus.over_time(target["expr"]) if points]
    series.sort(key=lambda one: -one[1][-1][1])
    top = max((value for _, points in series for _, value in points), default=0) or 1
    left, right, upper, lower = 64, width - 10, 34, height - 58
    out = []
    for part in range(4):
        y = lower - (lower - upper) * part / 3
        out.append(f'<line x1="{left}" y1="{y:.0f}" x2="{right}" y2="{y:.0f}" stroke="#e4e7eb"/>')
        out.append(text(left - 6, y + 4, shown(top * part / 3, unit), 10, "#57606a", "end"))
    span = prometheus.end - prometheus.start
    x_of = lambda at: left + (right - left) * (at - prometheus.start) / span
    y_of = lambda value: lower - (lower - upper) * max(0, value) / top
    x, y = left, height - 34
    for index, (name, points) in enumerate(series):
        colour = fixed.get(name, PALETTE[index % len(PALETTE)])
        line = " ".join(f"{x_of(at):.1f},{y_of(value):.1f}" for at, value in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        needed = 20 + 6.4 * len(name)
        if x + needed > right and x > left:
            x, y = left, y + 14
        if y < height - 4:
            out.append(f'<rect x="{x:.0f}" y="{y - 8:.0f}" width="10" height="4" fill="{colour}"/>')
            out.append(text(x + 14, y, name, 10, "#57606a"))
        x += needed
    return out


def picture(dashboard, prometheus):
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    width, height, head = 24 * COLUMN, bottom * LINE, 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + head}" font-family="sans-serif">',
           f'<rect width="{width}" height="{height + head}" fill="#f4f5f5"/>', text(12, 27, dashboard["title"], 18, weight="bold")]
    draw = {"stat": stat, "table": table, "timeseries": graph}
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        x, y, w, h = at["x"] * COLUMN, head + at["y"] * LINE, at["w"] * COLUMN - GAP, at["h"] * LINE - GAP
        if panel["type"] == "row":
            out.append(text(x + 12, y + 18, panel["title"], 14, "#57606a", weight="bold"))
            continue
        out.append(f'<g transform="translate({x},{y})"><rect width="{w}" height="{h}" rx="2" fill="#fff" stroke="#d8d9da"/>')
        out.append(text(10, 20, panel["title"], 13, weight="bold"))
        drawn = draw[panel["type"]](panel, prometheus, w, h)
        out += drawn or [text(w / 2, h / 2, "no data", 12, "#8e8e8e", "middle")]
        out.append("</g>")
    return "\n".join(out + ["</svg>"]) + "\n"


def main(url, folder, minutes="5", rate="15s"):
    prometheus = Prometheus(url.rstrip("/"), float(minutes), rate)
    for name in ("overview", "internals"):
        dashboard = json.loads((HERE / f"{name}.json").read_text())
        path = Path(folder) / f"dashboard-{name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(picture(dashboard, prometheus))
        print(f"wrote {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
