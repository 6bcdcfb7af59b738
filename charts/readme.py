#!/usr/bin/env python3
"""Writes what follows from a chart's values.yaml: README.md and files/defaults.yaml.

    readme.py [--check] [CHART...]        without a chart: all beside this file

values.yaml is read by its layout: two spaces a level; the comment above a key is its
row; "## " begins a section. A key without a comment belongs to the row above it, as part
of that default. Also copies dashboards/*.json and dashboards/alerts.yaml of the
repository into the operator's chart, since a chart cannot reach outside of its folder.

--check writes nothing and ends with 1 where a file is stale.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEY = re.compile(r'^( *)("[^"]+"|[A-Za-z0-9_.-]+):(?: (.*))?$')


def scalar(text):
    """A YAML scalar or `{}`/`[]`, as far as our values files have them."""
    if text in ("{}", "[]", "true", "false") or re.fullmatch(r"-?\d+", text):
        return json.loads(text)
    return json.loads(text) if text.startswith('"') else text


def indent_of(line):
    return len(line) - len(line.lstrip(" "))


def block(lines):
    """The value that indented lines make: a map or a list of scalars."""
    if lines[0].lstrip().startswith("- "):
        return [scalar(line.lstrip()[2:]) for line in lines]
    value, level = {}, indent_of(lines[0])
    for index, line in enumerate(lines):
        if indent_of(line) != level:
            continue
        _, key, text = KEY.match(line).groups()
        below = []
        for later in lines[index + 1:]:
            if indent_of(later) <= level:
                break
            below.append(later)
        value[key.strip('"')] = block(below) if text is None else scalar(text)
    return value


def below(lines, number):
    """The numbers of the lines that belong to the key in line `number`, without comments and blank lines."""
    level, found = indent_of(lines[number]), []
    for later in range(number + 1, len(lines)):
        text = lines[later].strip()
        if not text or text.startswith("#"):
            continue
        if indent_of(lines[later]) <= level:
            break
        found.append(later)
    return found


def rows(path):
    """Yields ("section", title, None, None) and ("value", key path, default, description)."""
    lines = path.read_text().splitlines()
    stack, comment, covered = [], [], -1  # lines up to `covered` belong to a row already
    for number, line in enumerate(lines):
        text = line.strip()
        if text.startswith("#") and not line.startswith("## "):
            comment.append(text[1:].strip())
            continue
        description, comment = " ".join(comment), []
        if line.startswith("## "):
            yield "section", line[3:], None, None
        if not text or line.startswith("## ") or number <= covered:
            continue
        match = KEY.match(line)
        if not match:
            raise SystemExit(f"{path}:{number + 1}: neither a key nor a comment: {line!r}")
        stack[len(match[1]) // 2:] = [match[2].strip('"')]
        children = below(lines, number)
        if description:
            covered = max([number, *children])
            default = block([lines[child] for child in children]) if match[3] is None else scalar(match[3])
            yield "value", ".".join(stack), default, description
        elif not children:
            raise SystemExit(f"{path}:{number + 1}: `{'.'.join(stack)}` has no comment")


def readme(chart):
    about = dict(re.findall(r"(?m)^(name|version|appVersion|kubeVersion): *(.*)$", (chart / "Chart.yaml").read_text()))
    out = ["<!-- Written by charts/readme.py from values.yaml and README.intro.md. -->", "", f"# {about['name']}", ""]
    out += [(chart / "README.intro.md").read_text().strip(), "", "## Values", ""]
    is_open = False
    for kind, name, default, text in rows(chart / "values.yaml"):
        if kind == "section":
            out += ([""] if is_open else []) + [f"### {name}", "", "| value | default | meaning |", "|---|---|---|"]
            is_open = True
            continue
        shown = json.dumps(default, ensure_ascii=False)
        cells = [f"`{name}`", f"`{shown}`", text]
        out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(out) + "\n"


def defaults(chart):
    lines = (chart / "values.yaml").read_text().splitlines()
    kept = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    head = "# values.yaml without its comments, written by charts/readme.py: templates can read only this copy.\n"
    return head + "\n".join(kept) + "\n"


def wanted(chart):
    """Files that this script writes, with what they should hold."""
    files = {chart / "README.md": readme(chart), chart / "files" / "defaults.yaml": defaults(chart)}
    if chart.name == "multinic-operator":
        source = HERE.parent / "dashboards"
        for path in sorted(source.glob("*.json")):
            files[chart / "files" / "dashboards" / path.name] = path.read_text()
        files[chart / "files" / "rules" / "alerts.yaml"] = (source / "alerts.yaml").read_text()
    return files


def surplus(chart, files):
    """Copies whose original is gone."""
    copies = [path for folder in ("dashboards", "rules") for path in (chart / "files" / folder).glob("*")]
    return [path for path in copies if path not in files]


def main(arguments):
    is_check = "--check" in arguments
    named = [Path(name).resolve() for name in arguments if name != "--check"]
    stale = []
    for chart in named or sorted(path.parent for path in HERE.glob("*/Chart.yaml")):
        files = wanted(chart)
        for path, text in files.items():
            if path.exists() and path.read_text() == text:
                continue
            stale.append(path)
            if not is_check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        for path in surplus(chart, files):
            stale.append(path)
            if not is_check:
                path.unlink()
    for path in stale:
        print(f"{'stale' if is_check else 'wrote'}: {path.relative_to(HERE.parent)}")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
