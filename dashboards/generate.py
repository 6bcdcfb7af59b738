#!/usr/bin/env python3
"""Writes the Grafana dashboards: overview.json and internals.json beside this file.

    generate.py [--check]      --check writes nothing and ends with 1 where a file is stale

A dashboard is a list of rows, a row a list of panels: title, what it shows (the panel's description), kind,
unit, queries. Everything else (grid, ids, colours, data source) follows from that. The data source is a variable,
so a dashboard works in any Grafana; nothing in it has an id of somebody's installation.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RUNBOOK = "https://multinic.example.com/runbook"

# A state has one colour, wherever it is shown.
COLOURS = {
    "ready": "green", "delivered": "green", "ok": "green", "accepted": "green", "Selected": "green",
    "desired": "blue", "pending": "blue", "paused": "text",
    "degraded": "yellow", "skipped": "yellow", "rejected": "orange", "OverLimit": "orange",
    "not_ready": "red", "failed": "red", "error": "red", "panic": "red", "killed": "dark-red",
    "start_refused": "orange", "stopped": "yellow",
}
CONFIG = 'namespace=~"$namespace", config=~"$config"'
JOB = 'job=~"$job"'


def overview():
    return dashboard("multinic-overview", "multinic-operator / Overview",
        "Is every config in sync, since when not, and whose fault is it?",
        ["job", "namespace", "config"],
        row("The fleet",
            stat("Configs by state", "How many objects are in which state; each counts once, in the first that holds: paused, pending, not ready, degraded, ready.",
                 "short", ('sum by (state) (multinic_configs{%s})' % JOB, "{{state}}"), width=10),
            stat("Alerts", "Alerts of the operator that fire now. Each has a section in the runbook.",
                 "short", ('count(ALERTS{alertname=~"Multinic.*", alertstate="firing"}) or vector(0)', "firing"),
                 steps=[("green", None), ("red", 1)], width=4),
            stat("Nodes", "Nodes that should have interfaces, that have what the cloud says, and VMs that are left out.",
                 "short", ('sum by (state) (multinic_config_nodes{%s})' % CONFIG, "{{state}}"), width=7),
            stat("Leaders", "Replicas that poll and deliver. Exactly one per installation is right.",
                 "short", ('sum(multinic_leader{%s})' % JOB, "leaders"),
                 steps=[("red", None), ("green", 1), ("red", 2)], width=3)),
        row("Configs",
            table("Not ready, and why", "Configs whose last rounds ended in an error, by the reason of that error. The reason's section in the runbook says what to do.",
                  'sum by (namespace, config, reason) (increase(multinic_config_syncs_total{%s, reason!~"Synced|NoChange|Pending"}[$__rate_interval])) > 0 and on (namespace, config) multinic_config_ready == 0' % CONFIG,
                  {"namespace": "Namespace", "config": "Config", "reason": "Reason", "Value": "Rounds"}),
            table("Age of the last success", "Time since everything that was wanted was last found delivered. More than a few slow intervals is worth a look.",
                  'time() - multinic_config_last_success_timestamp_seconds{%s}' % CONFIG,
                  {"namespace": "Namespace", "config": "Config", "Value": "Age"}, unit="s",
                  steps=[("green", None), ("yellow", 900), ("red", 3600)])),
        row("From the port to the node",
            graph("Change to delivered", "How long new ports took from being seen to being delivered. 99 % within 60 s is the objective.",
                  "s", ('histogram_quantile(0.5, sum by (le) (rate(multinic_change_delivery_seconds_bucket{%s}[$__rate_interval])))' % JOB, "median"),
                  ('histogram_quantile(0.99, sum by (le) (rate(multinic_change_delivery_seconds_bucket{%s}[$__rate_interval])))' % JOB, "99 %")),
            graph("Changes later than 60 s", "The part of new ports that took longer than 60 s; 1 % is allowed in the long run.",
                  "percentunit", ('multinic:slow_changes:ratio_rate1h{%s}' % JOB, "last hour"), ('multinic:slow_changes:ratio_rate6h{%s}' % JOB, "last six hours")),
            graph("Nodes posted", "Nodes that were sent, by what became of them: accepted, rejected (that node was refused), failed (the POST as a whole).",
                  "ops", ('sum by (result) (rate(multinic_config_delivered_nodes_total{%s}[$__rate_interval]))' % CONFIG, "{{result}}"))),
        row("Clouds",
            graph("Requests", "Requests per second to each cloud and to Viola.", "reqps",
                  ('sum by (cloud, service) (rate(multinic_upstream_requests_total{%s}[$__rate_interval]))' % JOB, "{{cloud}} {{service}}")),
            graph("Failed requests", "Requests per second that ended without an answer of use, by status or kind of failure.", "reqps",
                  ('sum by (cloud, service, code) (rate(multinic_upstream_requests_total{%s, code!~"2.."}[$__rate_interval]))' % JOB, "{{cloud}} {{service}} {{code}}")),
            graph("Part that fails", "What the alert MultinicCloudErrors looks at: above one half for ten minutes it pages.", "percentunit",
                  ('multinic:upstream_errors:ratio_rate5m{%s}' % JOB, "{{cloud}} {{service}}")),
            graph("Answer times", "The time within which 95 % of the requests are answered, waiting for a limit not included.", "s",
                  ('histogram_quantile(0.95, sum by (le, service, operation) (rate(multinic_upstream_request_duration_seconds_bucket{%s}[$__rate_interval])))' % JOB, "{{service}} {{operation}}")),
            graph("Throttling", "Seconds that requests wait for a cloud's limits, per second. Above 1 polls come later than asked for.", "s",
                  ('sum by (cloud, service) (rate(multinic_upstream_throttle_seconds_total{%s}[$__rate_interval]))' % JOB, "{{cloud}} {{service}}"))),
        row("One config after the other",
            graph("Nodes and left-out VMs", "Desired, delivered and skipped, over the chosen configs.", "short",
                  ('sum by (state) (multinic_config_nodes{%s})' % CONFIG, "{{state}}")),
            graph("Interfaces", "Ports that became interfaces, per config.", "short",
                  ('multinic_config_interfaces{%s}' % CONFIG, "{{namespace}}/{{config}}")),
            graph("Ports by verdict", "Every port of the VMs and why it is taken or left. OverLimit: NICs that are cut at ten a node.", "short",
                  ('sum by (verdict) (multinic_config_ports{%s})' % CONFIG, "{{verdict}}")),
            graph("DOWN ports", "Selected ports that Neutron reports as DOWN; their nodes are sent again and again.", "short",
                  ('multinic_config_down_ports{%s}' % CONFIG, "{{namespace}}/{{config}}")),
            graph("Rounds", "Rounds per second by what they came to.", "ops",
                  ('sum by (reason) (rate(multinic_config_syncs_total{%s}[$__rate_interval]))' % CONFIG, "{{reason}}")),
            graph("Poll interval", "Between two looks: short after a change and long when stable.", "s",
                  ('multinic_config_poll_interval_seconds{%s}' % CONFIG, "{{namespace}}/{{config}}")),
            graph("Last round", "How long the last round took, from its begin to the last decision.", "s",
                  ('multinic_config_last_sync_duration_seconds{%s}' % CONFIG, "{{namespace}}/{{config}}")),
            graph("Life left in the token", "A token is renewed at half of its life: a line that falls to zero is a renewal that fails.", "s",
                  ('multinic_config_token_expiry_timestamp_seconds{%s} - time()' % CONFIG, "{{namespace}}/{{config}}")),
            table("Degraded or paused", "Configs with VMs that are left out (1), and configs that somebody paused (2).",
                  '(multinic_config_degraded{%s} == 1) or (2 * (multinic_config_paused{%s} == 1))' % (CONFIG, CONFIG),
                  {"namespace": "Namespace", "config": "Config", "Value": "1 degraded, 2 paused"})))


def internals():
    return dashboard("multinic-internals", "multinic-operator / Internals",
        "What the process does inside: actors, the inventory, the watch, memory and CPU.",
        ["job"],
        row("Process",
            stat("Version", "Which versions run.", "short", ('count by (version) (multinic_build_info{%s})' % JOB, "{{version}}"), width=6),
            stat("Up since", "When the youngest process started.", "dateTimeFromNow", ('max(process_start_time_seconds{%s}) * 1000' % JOB, "started"), width=6),
            stat("Leader", "1 on the replica that polls and delivers.", "short", ('multinic_leader{%s}' % JOB, "{{instance}}"),
                 steps=[("blue", None), ("green", 1)], width=6),
            stat("Nodes in the inventory", "As last written.", "short", ('sum(multinic_inventory_records{%s})' % JOB, "records"), width=6),
            graph("CPU", "Seconds of CPU per second.", "percentunit", ('rate(process_cpu_seconds_total{%s}[$__rate_interval])' % JOB, "{{instance}}")),
            graph("Memory", "Resident memory. It follows the number of VMs and should not grow by itself.", "bytes", ('process_resident_memory_bytes{%s}' % JOB, "{{instance}}")),
            graph("Open files", "Sockets and files. A line that only rises is a leak.", "short", ('process_open_fds{%s}' % JOB, "{{instance}}"))),
        row("Actors",
            graph("Actors by kind", "How many run. Ports follow the VMs, the others the configs.", "short",
                  ('sum by (kind) (multinic_actors{%s})' % JOB, "{{kind}}")),
            graph("Restarts by cause", "Restarts per minute. Single ones are healed; many are a defect.", "short",
                  ('60 * sum by (cause) (rate(multinic_actor_restarts_total{%s}[$__rate_interval]))' % JOB, "{{cause}}")),
            graph("Restarts by kind", "The same by what was restarted.", "short",
                  ('60 * sum by (kind) (rate(multinic_actor_restarts_total{%s}[$__rate_interval]))' % JOB, "{{kind}}")),
            graph("Messages", "Messages handled per second.", "ops",
                  ('sum by (kind) (rate(multinic_actor_handle_seconds_count{%s}[$__rate_interval]))' % JOB, "{{kind}}")),
            graph("Time for a message, 99 %", "No handler waits for network or disk: more than a few milliseconds is a defect or a starved machine.", "s",
                  ('histogram_quantile(0.99, sum by (le, kind) (rate(multinic_actor_handle_seconds_bucket{%s}[$__rate_interval])))' % JOB, "{{kind}}")),
            graph("Duration of rounds, 95 %", "Over all configs, by result.", "s",
                  ('histogram_quantile(0.95, sum by (le, result) (rate(multinic_sync_duration_seconds_bucket{%s}[$__rate_interval])))' % JOB, "{{result}}"))),
        row("Inventory",
            graph("Changes that no store has", "Above zero for longer than a write takes: the disk refuses.", "short",
                  ('multinic_inventory_unpersisted_changes{%s}' % JOB, "{{instance}}")),
            graph("Writes", "Attempts per minute, by result.", "short",
                  ('60 * sum by (result) (rate(multinic_inventory_persists_total{%s}[$__rate_interval]))' % JOB, "{{result}}")),
            graph("Time for a write, 95 %", "With the wait for the disk (fsync).", "s",
                  ('histogram_quantile(0.95, sum by (le) (rate(multinic_inventory_persist_duration_seconds_bucket{%s}[$__rate_interval])))' % JOB, "95 %")),
            graph("Age of the last write", "Nothing is written when nothing changes: old is no fault by itself.", "s",
                  ('time() - multinic_inventory_last_persist_timestamp_seconds{%s}' % JOB, "{{instance}}"))),
        row("Watch (with Kubernetes)",
            graph("Events", "Objects that came, changed or went, per minute.", "short",
                  ('60 * sum by (kind) (rate(multinic_watch_events_total{%s}[$__rate_interval]))' % JOB, "{{kind}}")),
            graph("Watches opened again", "Per minute. An API server ends a watch every few minutes; more is trouble.", "short",
                  ('60 * sum by (kind) (rate(multinic_watch_restarts_total{%s}[$__rate_interval]))' % JOB, "{{kind}}")),
            graph("Silence of the watch", "Time since a list, an object or a bookmark came. Above ten minutes it is dead.", "s",
                  ('time() - multinic_watch_last_event_timestamp_seconds{%s}' % JOB, "{{kind}}"))))


def row(title, *panels):
    return title, panels


def panel(kind, title, description, unit, queries, steps, width, height, **options):
    thresholds = [{"color": colour, "value": value} for colour, value in steps or [("green", None)]]
    is_table = kind == "table"
    return {
        "type": kind, "title": title, "description": description, "datasource": SOURCE,
        "gridPos": {"w": width, "h": height},
        "targets": [
            {"datasource": SOURCE, "refId": chr(ord("A") + index), "expr": expr, "legendFormat": legend,
             "editorMode": "code", "instant": is_table or kind == "stat", "range": not (is_table or kind == "stat"),
             "format": "table" if is_table else "time_series"}
            for index, (expr, legend) in enumerate(queries)],
        "fieldConfig": {
            "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": thresholds},
                         "color": {"mode": "thresholds" if steps else "palette-classic-by-name"}, **options.pop("defaults", {})},
            "overrides": options.pop("overrides", [])},
        **options}


def by_state(queries):
    """Colours for series that are named after a state."""
    if not any(legend in ("{{state}}", "{{result}}", "{{verdict}}", "{{cause}}") for _, legend in queries):
        return []
    return [{"matcher": {"id": "byName", "options": name},
             "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}]}
            for name, colour in COLOURS.items()]


def stat(title, description, unit, *queries, steps=None, width=6):
    return panel("stat", title, description, unit, queries, steps, width, 5, overrides=[] if steps else by_state(queries),
                 options={"colorMode": "value", "graphMode": "none", "textMode": "value_and_name", "wideLayout": True,
                          "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}})


def graph(title, description, unit, *queries):
    return panel("timeseries", title, description, unit, queries, None, 8, 8, overrides=by_state(queries),
                 defaults={"min": 0, "custom": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}},
                 options={"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                          "tooltip": {"mode": "multi", "sort": "desc"}})


def table(title, description, query, names, unit="short", steps=None):
    shown = {"reason": {"title": "Runbook", "url": RUNBOOK + "#reasons", "targetBlank": True}}
    overrides = [{"matcher": {"id": "byName", "options": names[label]}, "properties": [{"id": "links", "value": [link]}]}
                 for label, link in shown.items() if label in names]
    return panel("table", title, description, unit, [(query, "")], steps, 12, 9, overrides=overrides,
                 options={"showHeader": True, "cellHeight": "sm"},
                 transformations=[
                     {"id": "organize", "options": {"excludeByName": {"Time": True, "__name__": True, "job": True, "instance": True},
                                                    "renameByName": names}},
                     {"id": "sortBy", "options": {"sort": [{"field": names["Value"], "desc": True}]}}])


VARIABLES = {
    "job": "label_values(multinic_build_info, job)",
    "namespace": "label_values(multinic_config_ready, namespace)",
    "config": 'label_values(multinic_config_ready{namespace=~"$namespace"}, config)',
}


def variable(name):
    return {"name": name, "label": name.capitalize(), "type": "query", "datasource": SOURCE, "refresh": 2, "sort": 1,
            "query": {"query": VARIABLES[name], "refId": name}, "definition": VARIABLES[name],
            "includeAll": True, "multi": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "hide": 0}


def dashboard(uid, title, description, variables, *rows):
    placed, y, number = [], 0, 0
    for heading, panels in rows:
        number += 1
        placed.append({"id": number, "type": "row", "title": heading, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y, x, tallest = y + 1, 0, 0
        for item in panels:
            width, height = item["gridPos"]["w"], item["gridPos"]["h"]
            if x + width > 24:
                y, x, tallest = y + tallest, 0, 0
            number += 1
            placed.append({"id": number, **item, "gridPos": {"x": x, "y": y, "w": width, "h": height}})
            x, tallest = x + width, max(tallest, height)
        y += tallest
    return {
        "uid": uid, "title": title, "description": description, "tags": ["multinic-operator"],
        "schemaVersion": 41, "version": 1, "editable": True, "graphTooltip": 1, "timezone": "browser",
        "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
        "annotations": {"list": [{
            "builtIn": 0, "datasource": SOURCE, "enable": True, "iconColor": "red", "name": "Alerts",
            "expr": 'ALERTS{alertname=~"Multinic.*", alertstate="firing"}', "titleFormat": "{{alertname}}", "textFormat": "{{namespace}} {{config}} {{service}}"}]},
        "links": [
            {"title": "multinic-operator", "type": "dashboards", "tags": ["multinic-operator"], "asDropdown": False,
             "includeVars": True, "keepTime": True},
            {"title": "Console", "type": "link", "icon": "external link", "targetBlank": True, "url": "${console}"},
            {"title": "Runbook", "type": "link", "icon": "doc", "targetBlank": True, "url": RUNBOOK}],
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1, "current": {}, "hide": 0},
            *[variable(name) for name in variables],
            {"name": "console", "label": "Console", "type": "textbox", "query": "http://localhost:18081/", "hide": 0,
             "current": {"text": "http://localhost:18081/", "value": "http://localhost:18081/"}}]},
        "panels": placed}


def main(arguments):
    stale = []
    for name, content in (("overview.json", overview()), ("internals.json", internals())):
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        path = HERE / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(text)
    for name in stale:
        print(f"{'stale' if '--check' in arguments else 'wrote'}: dashboards/{name}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
