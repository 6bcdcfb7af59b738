#!/usr/bin/env python3
"""The QA checklist, proven: `make qa`. Runs exactly the tests that docs/qa.md names and prints a row for each line.

  qa.py [NUMBER...]     only these lines
  qa.py --list          what would be run

A test is written as [FILE](../FILE) `module::name`. Behind `make TARGET`: it needs real services; it is run where
these are there already (`make TARGET` installs them), and else the row says so. A test that does not exist, is not
run, or stands otherwise in docs/qa.ko.md, is a failure.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
ROW = re.compile(r"^\| *(\d+) *\| *(.*?) *\| *(.*?) *\| *(.*?) *\|$")
TEST = re.compile(r"(?:`make ([\w-]+)`: )?\[([\w/.]+)\]\(\.\./\2\) `([\w:]+)`")


class Test:
    def __init__(self, needs, file, name):
        self.needs, self.file, self.name = needs, file, name
        part = Path(file).parts
        self.target = Path(part[1]).stem if part[0] == "tests" else "lib"
        self.key = (needs, self.target, name)

    def __repr__(self):
        return f"{self.target} {self.name}" + (f" (make {self.needs})" if self.needs else "")

    def is_written(self):
        path, function = ROOT / self.file, self.name.rsplit("::", 1)[-1]
        return path.is_file() and re.search(rf"\bfn {function}\(", path.read_text()) is not None


def rows(document):
    """Number -> (line, tests), as the document has them."""
    found = {}
    for text in (ROOT / "docs" / document).read_text().splitlines():
        row = ROW.match(text)
        if not row:
            continue
        number, line, cell = int(row[1]), row[2], row[4]
        tests = [Test(*test.groups()) for test in TEST.finditer(cell)]
        rest = TEST.sub("", cell).replace("<br>", "").strip()
        if rest or not tests or number in found:
            sys.exit(f"docs/{document}: line {number}: cannot read {rest or cell!r}")
        found[number] = (line, tests)
    if list(found) != list(range(1, len(found) + 1)) or not found:
        sys.exit(f"docs/{document}: the lines are {list(found)}")
    return found


def home_of_kube():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("KUBE_TESTBED_HOME") or Path(cache) / "multinic-testbed/kube")


def has_kube():
    return bool(os.environ.get("KUBE_TESTBED_KUBECONFIG")) or any(home_of_kube().glob("kube-*/kube-apiserver"))


def has_sshd():
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    return all(shutil.which(program, path=path) for program in ("sshd", "ssh-keygen"))


# What a make target needs, and the command before cargo's.
SERVICES = {
    "e2e-kube": (has_kube, ["env", "KUBE_TESTBED_WORKLOAD=1", "tests/env/kube/e2e.sh"]),
    "e2e-ssh": (lambda: has_kube() and has_sshd(), ["tests/env/ssh/e2e.sh", "tests/env/kube/e2e.sh"]),
}


def run(tests, prefix=(), flags=()):
    """Key -> True or False of each test that ran, and whether cargo could build them at all."""
    targets = sorted({test.target for test in tests})
    names = sorted({test.name for test in tests})
    which = [word for target in targets for word in (["--lib"] if target == "lib" else ["--test", target])]
    build = [CARGO, "test", "--workspace", *which]
    if subprocess.run([*build, "--no-run", "--quiet"], cwd=ROOT).returncode:
        sys.exit("the tests cannot be built")
    command = [*prefix, *build, "--no-fail-fast", "--", "--exact", *flags, *names]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    target, seen, log = "", {}, []
    for line in process.stdout:
        log.append(line)
        running = re.match(r"\s*Running (unittests )?([\w/.]+)", line)
        if running:
            # The library of another package of the workspace says the same: only what it ran counts.
            target = "lib" if running[1] else Test("", running[2][running[2].index("tests/"):], "").target
        result = re.match(r"test ([\w:]+) \.\.\. (?:.* )?(ok|FAILED)\b", line)
        if result:
            seen[(target, result[1])] = result[2] == "ok"
    code = process.wait()
    if code and all(seen.values()):
        print("".join(log[-40:]), file=sys.stderr)
    elif code:
        print("".join(log), file=sys.stderr)
    return {test.key: seen[test.target, test.name] for test in tests if (test.target, test.name) in seen}


def results(tests):
    """Key -> "ok", "FAIL", "not there", or why it was not run."""
    found = {test.key: "not there" for test in tests}
    written = [test for test in tests if test.is_written()]
    for needs in sorted({test.needs or "" for test in written}):
        of = [test for test in written if (test.needs or "") == needs]
        are_there, prefix = SERVICES[needs] if needs else (lambda: True, ())
        if are_there():
            flags = ["--ignored", "--test-threads=1"] if needs else []
            ran = run(of, prefix, flags)
            found.update({key: "ok" if passed else "FAIL" for key, passed in ran.items()})
        else:
            found.update({test.key: f"not run: make {needs}" for test in of})
    return found


def main(words):
    english, korean = rows("qa.md"), rows("qa.ko.md")
    for number in english.keys() | korean.keys():
        both = [[test.key for test in document[number][1]] if number in document else [] for document in (english, korean)]
        if both[0] != both[1]:
            sys.exit(f"line {number}: docs/qa.md and docs/qa.ko.md name other tests: {both[0]} {both[1]}")
    chosen = {int(word) for word in words if word.isdigit()} or set(english)
    lines = {number: english[number] for number in sorted(chosen & set(english))}
    if "--list" in words or not lines:
        for number, (line, tests) in lines.items():
            print(f"{number:2} {line}", *tests, sep="\n     ")
        return 0 if lines else 2
    found = results([test for _, tests in lines.values() for test in tests])
    failed = proven = 0
    for number, (line, tests) in lines.items():
        said = [(test, found[test.key]) for test in tests]
        bad = [f"{test}: {result}" for test, result in said if result in ("FAIL", "not there")]
        missing = sorted({result for _, result in said if result.startswith("not run")})
        is_proven = not bad and any(result == "ok" for _, result in said)
        failed, proven = failed + bool(bad), proven + is_proven
        word = "FAIL" if bad else "ok  " if is_proven else "skip"
        print(f"{word} {number:2} {line}" + (f" ({', '.join(missing)})" if missing else ""))
        for text in bad:
            print(f"        {text}")
    print(f"\n{proven} of {len(lines)} lines are proven")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
