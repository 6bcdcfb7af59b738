"""Tests of the charts. Run by run.sh; an argument runs only the tests with that word in the name."""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CHARTS = ROOT / "charts"
OPERATOR, VIOLA, PREVIOUS = CHARTS / "multinic-operator", CHARTS / "viola-test-api", HERE / "previous-chart"
HELM4, HELM3 = os.environ["HELM"], shutil.which(os.environ["HELM3"])
HELMS = [HELM4] + ([HELM3] if HELM3 else [])
OLDEST = 31  # of Kubernetes 1.x


class Failure(Exception):
    """What a test found."""


class Skipped(Exception):
    """Why a test cannot run here."""


def expect(is_so, message):
    if not is_so:
        raise Failure(message)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def render(chart, *arguments, helm=HELM4, release="nic", namespace="nic-system"):
    """The text that Helm renders, without the blank lines in which Helm 3 and 4 differ."""
    code, out, error = run(helm, "template", release, chart, "--namespace", namespace, *arguments)
    expect(code == 0, f"{helm} template {chart.name} {' '.join(map(str, arguments))}: {error}")
    return "".join(line + "\n" for line in out.splitlines() if line.strip())


def objects(text):
    """Rendered objects by (kind, namespace, name)."""
    found = {}
    for document in yaml.safe_load_all(text):
        if document:
            meta = document["metadata"]
            key = (document["kind"], meta.get("namespace", ""), meta["name"])
            expect(key not in found, f"two objects are {key}")
            found[key] = document
    return found


def value_sets():
    for path in sorted((HERE / "values").glob("*.yaml")):
        yield (VIOLA if path.stem.startswith("viola") else OPERATOR), path


def only(found, kind):
    chosen = [item for (of_kind, _, _), item in found.items() if of_kind == kind]
    expect(len(chosen) == 1, f"{len(chosen)} objects of kind {kind}")
    return chosen[0]


def pod(found):
    return only(found, "Deployment")["spec"]["template"]["spec"]


# --- what a chart is


def test_charts_pass_a_strict_lint():
    for helm in HELMS:
        for chart, values in value_sets():
            code, out, error = run(helm, "lint", "--strict", chart, "--values", values)
            expect(code == 0, f"{helm} {values.name}: {out}{error}")


def test_readmes_and_copies_are_what_the_values_say():
    code, out, error = run(sys.executable, CHARTS / "readme.py", "--check")
    expect(code == 0, f"run charts/readme.py: {out}{error}")


def test_versions_are_those_of_the_binary():
    version = re.search(r'(?m)^version = "(.+)"', (ROOT / "Cargo.toml").read_text())[1]
    for chart in (OPERATOR, VIOLA):
        about = yaml.safe_load((chart / "Chart.yaml").read_text())
        expect(about["appVersion"] == version, f"{chart.name}: appVersion {about['appVersion']}, the binary is {version}")


def test_every_template_begins_with_the_defaults():
    for chart in (OPERATOR, VIOLA):
        for path in sorted((chart / "templates").iterdir()):
            first = path.read_text().splitlines()[0]
            expect(path.suffix == ".tpl" or first.startswith(f'{{{{- include "{chart.name}.init"'), f"{path.name}: {first}")


# --- golden renders


def test_renders_are_the_golden_ones():
    stale = []
    for chart, values in value_sets():
        golden, text = HERE / "golden" / values.name, render(chart, "--values", values)
        if os.environ.get("UPDATE_GOLDEN"):
            golden.write_text(text)
        had = golden.read_text() if golden.exists() else ""
        if had != text:
            stale += list(difflib.unified_diff(had.splitlines(), text.splitlines(), str(golden.name), "rendered", lineterm="", n=1))
    expect(not stale, "UPDATE_GOLDEN=1 writes them anew:\n" + "\n".join(stale[:80]))


def test_helm_3_renders_the_same():
    if not HELM3:
        raise Skipped("no helm3")
    for chart, values in value_sets():
        three, four = (objects(render(chart, "--values", values, helm=helm)) for helm in (HELM3, HELM4))
        expect(three == four, f"{values.name}: {set(three) ^ set(four) or 'objects differ'}")


def test_built_in_kinds_are_valid_in_every_supported_kubernetes():
    newest = int(kubernetes_validate.latest_version().split(".")[1])
    expect(newest >= 37, f"newest is 1.{newest}")
    ours = {"monitoring.coreos.com", "multinic.example.com"}
    count = 0
    for chart, values in value_sets():
        for key, item in objects(render(chart, "--values", values, "--include-crds")).items():
            if item["apiVersion"].split("/")[0] in ours:
                continue
            for minor in range(OLDEST, newest + 1):
                try:
                    kubernetes_validate.validate(item, f"1.{minor}", strict=True)
                    count += 1
                except Exception as error:
                    raise Failure(f"{values.name}: {key} in 1.{minor}: {error}") from error
    expect(count > 300, f"only {count} validations")


# --- values


REFUSED = [
    # chart, what is set, a word of the message
    (OPERATOR, "operatorConfig.violaEndpiont=http://v", "violaEndpiont"),
    (OPERATOR, "operatorConfig.violaEndpoint=viola:8080", "violaEndpoint"),
    (OPERATOR, "operatorConfig.violaEndpoint=http://user:pass@viola", "violaEndpoint"),
    (OPERATOR, "operatorConfig.violaTimeout=30", "violaTimeout"),
    (OPERATOR, "operatorConfig.violaTimeout=1d", "violaTimeout"),
    (OPERATOR, "operatorConfig.violaInsecureTLS=yes", "violaInsecureTLS"),
    (OPERATOR, "image.tag=a:b", "tag"),
    (OPERATOR, "image.pullPolicy=Sometimes", "pullPolicy"),
    (OPERATOR, "image.digest=sha256:abc", "digest"),
    (OPERATOR, "image.repository=", "repository"),
    (OPERATOR, "inventory.enabled=maybe", "enabled"),
    (OPERATOR, "inventory.addr=18081", "addr"),
    (OPERATOR, "inventory.dbPath=inventory.json", "dbPath"),
    (OPERATOR, "inventory.dbPath=/inventory.json", "dbPath"),
    (OPERATOR, "inventory.service.port=0", "port"),
    (OPERATOR, "inventory.service.port=http", "port"),
    (OPERATOR, "persistence.size=big", "size"),
    (OPERATOR, "persistence.accessModes={ReadWriteTwice}", "accessModes"),
    (OPERATOR, "watch.namespaces=team-a", "namespaces"),
    (OPERATOR, "watch.namespaces={Team_A}", "namespaces"),
    (OPERATOR, "interfaceOrder=Random", "interfaceOrder"),
    (OPERATOR, "changePolicy=auto", "changePolicy"),
    (OPERATOR, "cloud.maxInFlight=0", "maxInFlight"),
    (OPERATOR, "cloud.neutronRequestBytes=100", "neutronRequestBytes"),
    (OPERATOR, "logFormat=xml", "logFormat"),
    (OPERATOR, "metrics.port=99999", "port"),
    (OPERATOR, "metrics.serviceMonitor.interval=soon", "interval"),
    (OPERATOR, "replicaCount=-1", "replicaCount"),
    (OPERATOR, "replicaCount=2", "leaderElection.enabled"),
    (OPERATOR, "replicaCount=2,leaderElection.enabled=true,persistence.enabled=true", "ReadWriteMany"),
    (OPERATOR, "leaderElection.id=A_B", "id"),
    (OPERATOR, "strategy.type=Rolling", "type"),
    (OPERATOR, "stateConfigMap.enabled=sometimes", "stateConfigMap"),
    (OPERATOR, "caBundle.pem=none", "pem"),
    (OPERATOR, "resources.limit.memory=1Gi", "limit"),
    (OPERATOR, "tolerations.key=a", "tolerations"),
    (OPERATOR, "extraEnv[0].value=a", "extraEnv"),
    (OPERATOR, "replicas=2", "replicas"),
    (VIOLA, "env.targetNamespace=A", "targetNamespace"),
    (VIOLA, "env.routingConfigPath=routing.yaml", "routingConfigPath"),
    (VIOLA, "env.kubectlTimeout=soon", "kubectlTimeout"),
    (VIOLA, "routingSecret.file=a", "file"),
    (VIOLA, "service.port=0", "port"),
    (VIOLA, "rbac.namespaces=a", "namespaces"),
]


def test_wrong_values_are_refused_with_their_name():
    for helm in HELMS:
        for chart, setting, word in REFUSED:
            code, out, error = run(helm, "template", "nic", chart, "--set", setting)
            expect(code != 0, f"{helm}: {chart.name} takes {setting}")
            expect(word in error, f"{helm}: {chart.name} --set {setting} says: {error}")


def test_every_value_can_be_null():
    for chart in (OPERATOR, VIOLA):
        values = yaml.safe_load((chart / "values.yaml").read_text())
        for key in values:
            render(chart, "--set", f"{key}=null")


# --- the pod


def flags_and_variables():
    """The flags and variables that the binary knows, from its source."""
    fields = re.findall(r"(?m)^    (?:pub|pub\(crate\)) (\w+): Option<", (ROOT / "src/cli.rs").read_text())
    variables = re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', (ROOT / "src/settings.rs").read_text())
    return {"--" + field.replace("_", "-") for field in fields}, set(variables)


def test_only_flags_and_variables_that_the_binary_knows_are_passed():
    flags, variables = flags_and_variables()
    for chart, values in value_sets():
        if chart is not OPERATOR:
            continue
        container = pod(objects(render(chart, "--values", values)))["containers"][0]
        given = {argument.split("=")[0] for argument in container["args"]}
        expect(given <= flags, f"{values.name}: {given - flags}")
        extra = {item["name"] for item in yaml.safe_load(values.read_text()).get("extraEnv") or []}
        names = {item["name"] for item in container["env"]} - extra - {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
        expect(names <= variables, f"{values.name}: {names - variables}")


def test_pods_are_hardened_by_default():
    for chart in (OPERATOR, VIOLA):
        spec = pod(objects(render(chart)))
        of_pod, container = spec["securityContext"], spec["containers"][0]
        of_container = container["securityContext"]
        expect(of_pod["runAsNonRoot"] and of_pod["runAsUser"] == 65532 == of_pod["fsGroup"], f"{chart.name}: {of_pod}")
        expect(of_pod["seccompProfile"] == {"type": "RuntimeDefault"}, f"{chart.name}: {of_pod}")
        expect(of_container["readOnlyRootFilesystem"] and not of_container["allowPrivilegeEscalation"], of_container)
        expect(of_container["capabilities"] == {"drop": ["ALL"]}, of_container)
        expect({"livenessProbe", "readinessProbe", "resources"} <= set(container), f"{chart.name}: {set(container)}")


def test_two_pods_never_run_side_by_side_without_leader_election():
    def strategy(*settings):
        return only(objects(render(OPERATOR, "--set", ",".join(settings))), "Deployment")["spec"]["strategy"]["type"]

    elected, claim = "leaderElection.enabled=true", "persistence.enabled=true"
    expect(strategy("replicaCount=1") == "Recreate", "default")
    expect(strategy(claim) == "Recreate", claim)
    expect(strategy(elected, claim) == "Recreate", "a volume for one node")
    expect(strategy(elected, claim, "persistence.accessModes={ReadWriteMany}") == "RollingUpdate", "a shared volume")
    expect(strategy(elected) == "RollingUpdate", "no volume")


def test_an_inline_bundle_that_changes_restarts_the_pod():
    def checksum(pem):
        text = render(OPERATOR, "--set", f"caBundle.pem=-----BEGIN CERTIFICATE-----{pem}")
        return only(objects(text), "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/ca-bundle"]

    expect(checksum("a") == checksum("a") != checksum("b"), "checksum/ca-bundle")


# --- dashboards and alerts: too long for golden renders, and their originals are checked in


def observed(*arguments):
    flags = "metrics.prometheusRule.enabled=true,metrics.dashboards.enabled=true"
    return objects(render(OPERATOR, "--set", flags, *arguments))


def test_dashboards_and_alerts_arrive_as_they_are():
    found = observed()
    for name in ("overview", "internals"):
        data = found["ConfigMap", "nic-system", f"nic-multinic-operator-dashboard-{name}"]["data"]
        original = (ROOT / "dashboards" / f"{name}.json").read_text()
        expect(yaml.safe_load(data[f"{name}.json"]) == yaml.safe_load(original), name)
    groups = yaml.safe_load((ROOT / "dashboards/alerts.yaml").read_text())["groups"]
    expect(only(found, "PrometheusRule")["spec"]["groups"] == groups, "the rules")


def test_the_runbook_s_place_and_own_rules_are_put_in():
    own = HERE / "values" / "operator-observed.yaml"
    found = observed("--values", own, "--set", "metrics.prometheusRule.runbookUrl=https://docs.example.org/nic")
    rule = only(found, "PrometheusRule")
    expect(rule["metadata"]["labels"]["release"] == "prometheus", "its label")
    groups = rule["spec"]["groups"]
    expect(groups[0]["name"] == "of-our-own", "the own group is there")
    urls = [rule["annotations"]["runbook_url"] for group in groups[1:] for rule in group["rules"] if "alert" in rule]
    expect(urls and all(url.startswith("https://docs.example.org/nic#") for url in urls), str(urls[:1]))
    boards = [item for (kind, _, name), item in found.items() if kind == "ConfigMap" and "-dashboard-" in name]
    expect(len(boards) == 2 and not any("multinic.example.com/runbook" in str(board) for board in boards), "dashboards")


# --- rights


def rules(found, kinds=("Role", "ClusterRole")):
    for (kind, namespace, name), item in found.items():
        if kind in kinds and "-openstackconfig-" not in name:
            for rule in item["rules"]:
                yield kind, namespace, rule


def test_secrets_are_only_read_by_name():
    for chart, values in value_sets():
        for kind, namespace, rule in rules(objects(render(chart, "--values", values))):
            if "secrets" in rule["resources"]:
                expect(rule["verbs"] == ["get"], f"{values.name}: {kind} {namespace}: {rule}")
            expect("*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], f"{values.name}: {rule}")


def test_rights_follow_the_watched_namespaces():
    found = objects(render(OPERATOR, "--set", "watch.namespaces={a,b},manageCRDs=false"))
    expect(not [key for key in found if key[0].startswith("ClusterRole")], "cluster-wide rights")
    expect({key[1] for key in found if key[0] == "Role"} == {"a", "b"}, "roles in a and b")
    everywhere = objects(render(OPERATOR, "--set", "manageCRDs=false"))
    expect(not [key for key in everywhere if key[0] == "Role"], "roles")
    expect([key for key in everywhere if key[0] == "ClusterRole"], "no ClusterRole")


def test_every_binding_has_its_role_and_its_account():
    for chart, values in value_sets():
        found = objects(render(chart, "--values", values))
        accounts = {(namespace, name) for kind, namespace, name in found if kind == "ServiceAccount"}
        for (kind, namespace, name), item in found.items():
            if not kind.endswith("RoleBinding"):
                continue
            ref, subject = item["roleRef"], item["subjects"][0]
            place = namespace if ref["kind"] == "Role" else ""
            expect((ref["kind"], place, ref["name"]) in found, f"{values.name}: {name}: {ref}")
            expect((subject["namespace"], subject["name"]) in accounts, f"{values.name}: {name}: {subject}")


# --- the way from the previous chart

UPGRADES = [
    "persistence.enabled=false",
    "persistence.enabled=true",
    "persistence.enabled=true,persistence.storageClassName=fast,persistence.size=5Gi",
    "persistence.enabled=true,persistence.existingClaim=kept",
    "nameOverride=nics",
    "fullnameOverride=nics",
    "serviceAccount.name=nics",
    "inventory.service.port=80",
    "image.repository=registry.example.com/nics,image.pullSecrets[0].name=registry",
]


def with_values(chart, values, folder):
    """A copy of the chart with other defaults: what --reuse-values makes of it."""
    copy = Path(folder) / chart.name
    shutil.copytree(chart, copy, dirs_exist_ok=True)
    (copy / "values.yaml").write_text(values)
    return copy


def changes_that_an_api_server_refuses(old, new):
    """Fields that no upgrade can change, where both releases have the object."""
    immutable = {
        "Deployment": [("spec", "selector")],
        "PersistentVolumeClaim": [("spec",)],
        "RoleBinding": [("roleRef",)],
        "ClusterRoleBinding": [("roleRef",)],
        "Service": [("spec", "clusterIP")],
    }
    for key in old.keys() & new.keys():
        for path in immutable.get(key[0], []):
            before, after = old[key], new[key]
            for part in path:
                before, after = (before or {}).get(part), (after or {}).get(part)
            if before != after:
                yield f"{key}: {'.'.join(path)}: {before} -> {after}"


def check_upgrade(old, new, what):
    refused = list(changes_that_an_api_server_refuses(old, new))
    expect(not refused, f"{what}: {refused}")
    for kind in ("Deployment", "ServiceAccount", "PersistentVolumeClaim"):
        names = [{key for key in found if key[0] == kind} for found in (old, new)]
        expect(names[0] == names[1], f"{what}: {names}")
    before, after = only(old, "Deployment"), only(new, "Deployment")
    labels = after["spec"]["template"]["metadata"]["labels"].items()
    expect(after["spec"]["selector"]["matchLabels"].items() <= labels, f"{what}: {labels}")
    volumes = [{item["name"]: item for item in pod(found)["volumes"]} for found in (old, new)]
    expect(volumes[0]["inventory-data"] == volumes[1]["inventory-data"], f"{what}: {volumes}")
    mounts = [pod(found)["containers"][0]["volumeMounts"][0]["mountPath"] for found in (old, new)]
    expect(mounts[0] == mounts[1], f"{what}: {mounts}")
    expect(pod(new)["containers"][0]["name"] == "manager", f"{what}: the container's name")
    images = [pod(found).get("imagePullSecrets") for found in (old, new)]
    expect(images[0] == images[1], f"{what}: {images}")
    services = [key for key in old if key[0] == "Service"]
    for key in services:
        ports = [found[key]["spec"]["ports"][0]["port"] for found in (old, new)]
        expect(ports[0] == ports[1], f"{what}: {key}: {ports}")
        selectors = [found[key]["spec"]["selector"] for found in (old, new)]
        expect(selectors[0] == selectors[1], f"{what}: {key}: {selectors}")


def test_a_release_of_the_previous_chart_can_be_upgraded():
    for helm in HELMS:
        for setting in UPGRADES:
            old, new = (objects(render(chart, "--set", setting, helm=helm)) for chart in (PREVIOUS, OPERATOR))
            check_upgrade(old, new, f"{helm} {setting}")


def test_a_release_of_the_previous_chart_can_be_upgraded_with_its_own_values():
    with tempfile.TemporaryDirectory() as folder:
        reused = with_values(OPERATOR, (PREVIOUS / "values.yaml").read_text(), folder)
        for helm in HELMS:
            for setting in UPGRADES:
                old, new = (objects(render(chart, "--set", setting, helm=helm)) for chart in (PREVIOUS, reused))
                check_upgrade(old, new, f"{helm} --reuse-values {setting}")
                resources = [pod(found)["containers"][0]["resources"] for found in (old, new)]
                expect(resources[0] == resources[1], f"{helm} {setting}: {resources}")


def test_values_that_are_not_there_are_the_defaults():
    with tempfile.TemporaryDirectory() as folder:
        for chart in (OPERATOR, VIOLA):
            bare = with_values(chart, "{}\n", folder)
            for helm in HELMS:
                expect(render(bare, helm=helm) == render(chart, helm=helm), f"{helm}: {chart.name}")


def test_false_and_zero_are_not_taken_for_missing():
    with tempfile.TemporaryDirectory() as folder:
        bare = with_values(OPERATOR, "metrics: {enabled: false}\nmanageCRDs: false\nreplicaCount: 0\n", folder)
        found = objects(render(bare))
        arguments = pod(found)["containers"][0]["args"]
        expect("--metrics-bind-address=0" in arguments and "--manage-crds" not in arguments, arguments)
        expect(only(found, "Deployment")["spec"]["replicas"] == 0, "replicas")


# --- the rest


def test_the_notes_tell_three_steps():
    # Helm 3 shows notes only where it reaches a cluster.
    for chart, values in value_sets():
        code, out, error = run(HELM4, "install", "nic", chart, "--dry-run=client", "--values", values)
        expect(code == 0, f"{values.name}: {error}")
        notes = out[out.rindex("NOTES:"):]
        for step in ("\n1. ", "\n2. ", "\n3. "):
            expect(step in notes, f"{values.name}: no step {step.strip()} in {notes}")


def test_the_node_agent_s_resource_is_as_agreed():
    crd = yaml.safe_load((VIOLA / "crds/multinicnodeconfigs.yaml").read_text())
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    expect(crd["spec"]["group"] == "multinic.io" and version["name"] == "v1alpha1", "group and version")
    expect(names["kind"] == "MultiNicNodeConfig" and names["shortNames"] == ["mnnc"], names)
    expect(version["subresources"] == {"status": {}}, "status subresource")
    spec, status = (version["schema"]["openAPIV3Schema"]["properties"][part] for part in ("spec", "status"))
    expect(set(spec["properties"]) == {"nodeName", "instanceId", "interfaces"}, spec["properties"])
    expect(sorted(spec["required"]) == ["interfaces", "nodeName"], spec["required"])
    interface = spec["properties"]["interfaces"]["items"]
    fields = {"id", "name", "macAddress", "address", "cidr", "mtu", "portId"}
    expect(set(interface["properties"]) == fields and interface["required"] == ["macAddress"], interface)
    mtu = interface["properties"]["mtu"]
    expect((mtu["minimum"], mtu["maximum"]) == (68, 9000), mtu)
    expect(set(status["properties"]) == {"state", "observedGeneration", "interfaceStatuses", "conditions"}, status)


def test_manifests_are_the_chart():
    if not shutil.which("kubectl"):
        raise Skipped("no kubectl")
    with tempfile.TemporaryDirectory() as folder:
        code, out, error = run("make", "--silent", "manifests", f"DIST={folder}", f"HELM={HELM4}", "IMG=registry.example.com/nics:1")
        expect(code == 0, f"make manifests: {out}{error}")
        plain = objects((Path(folder) / "install.yaml").read_text())
        code, out, error = run("kubectl", "kustomize", Path(folder) / "kustomize")
        expect(code == 0, f"kubectl kustomize: {error}")
        expect(objects(out) == plain, f"install.yaml and kustomize differ: {set(objects(out)) ^ set(plain)}")
        kinds = {key[0] for key in plain}
        expect({"Namespace", "CustomResourceDefinition", "Deployment", "ServiceAccount"} <= kinds, kinds)
        expect(pod(plain)["containers"][0]["image"] == "registry.example.com/nics:1", "image")
        managers = {item["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") for item in plain.values()}
        expect("Helm" not in managers, "nobody but Helm may say that Helm manages it")


def main(words):
    passed = failed = skipped = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or not all(word in name for word in words):
            continue
        try:
            test()
        except Skipped as why:
            print(f"skip {name}: {why}")
            skipped += 1
        except Failure as found:
            print(f"FAIL {name}\n     {found}")
            failed += 1
        else:
            print(f"ok   {name}")
            passed += 1
    print(f"\n{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
