#!/usr/bin/env bash
# The charts on a real API server: the way up from the previous chart and back, with Helm 3 and 4 and each way they
# apply; the rights of the ServiceAccount; both CRDs; `make install`, `deploy` and `undeploy`.
#
# The cluster is that of KUBECONFIG (any; what is made is removed again), else one from tests/env/kube.
# No pod needs to run. HELM and HELM3 as in run.sh.
set -uo pipefail
cd "$(dirname "$0")/../.."

bed=tests/env/kube
if [[ -z ${HELM:-} && -x $bed/tools.sh ]]; then
  lines=$("$bed/tools.sh" kube cli helm3) && eval "$lines" || exit 1
fi
HELM=${HELM:-helm} HELM3=${HELM3:-helm3}
work=$(mktemp -d)
clean_up() {
  for namespace in ${namespaces:-}; do kubectl delete namespace "$namespace" --wait=false >/dev/null 2>&1; done
  kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/instance=charts-test >/dev/null 2>&1
  [[ -z ${own_cluster:-} ]] || "$bed/down.sh" --dir "$work/cluster" >/dev/null 2>&1
  rm -rf "$work"
}
trap clean_up EXIT
if [[ -z ${KUBECONFIG:-} ]]; then
  [[ -x $bed/up.sh ]] || { echo "needs a cluster: KUBECONFIG=…" >&2; exit 1; }
  lines=$("$bed/up.sh" --dir "$work/cluster") && eval "$lines" || exit 1
  own_cluster=yes
fi

passed=0 failed=0 namespaces=""
check() { # check WHAT COMMAND... - counts; shows what the command said if it fails
  local what=$1 said
  shift
  if said=$("$@" 2>&1); then
    passed=$((passed + 1)) && echo "ok   $what"
  else
    failed=$((failed + 1)) && printf 'FAIL %s\n%s\n' "$what" "$(sed 's/^/     /' <<<"$said" | tail -15)"
  fi
}
equal() { [[ $1 == "$2" ]] || { echo "expected: $2"; echo "found:    $1"; return 1; }; }
fresh() { # a namespace of its own for each case
  namespace=charts-test-$1-$RANDOM
  namespaces+=" $namespace"
  kubectl create namespace "$namespace" >/dev/null
}
of_deployment() { kubectl -n "$namespace" get deployment charts-test-multinic-operator -o jsonpath="$1"; }
image='{.spec.template.spec.containers[0].image}'
service=charts-test-multinic-operator-inventory

upgrade() { # upgrade NAME HELM INSTALL_FLAGS UPGRADE_FLAGS STRATEGY [HELM_FROM_THEN_ON]
  local what="$1: " helm=$2 install=$3 upgrade=$4 uid address
  fresh "$1"
  # Helm 4 applies crds/ at an install, and stops where a CRD is there and differs.
  ! kubectl get crd openstackconfigs.multinic.example.com >/dev/null 2>&1 || install+=" --skip-crds"
  # shellcheck disable=SC2086 # the flags are words
  {
    check "$what the previous chart is installed" \
      "$helm" install charts-test tests/charts/previous-chart -n "$namespace" --set persistence.enabled=true $install
    uid=$(of_deployment '{.metadata.uid}')
    address=$(kubectl -n "$namespace" get service "$service" -o jsonpath='{.spec.clusterIP}')
    check "$what it is upgraded" \
      "$helm" upgrade charts-test charts/multinic-operator -n "$namespace" --set image.tag=next $upgrade
    check "$what the image is ours" equal "$(of_deployment "$image")" multinic-operator:next
    check "$what the update strategy" equal "$(of_deployment '{.spec.strategy.type}')" "$5"
    check "$what it is upgraded again" \
      "${6:-$helm}" upgrade charts-test charts/multinic-operator -n "$namespace" --set image.tag=later $upgrade
    helm=${6:-$helm}
    check "$what it is rolled back" "$helm" rollback charts-test 1 -n "$namespace"
    check "$what the image is theirs" equal "$(of_deployment "$image")" multinic-operator:1.0.0
    check "$what and forward again" \
      "$helm" upgrade charts-test charts/multinic-operator -n "$namespace" --set image.tag=next $upgrade
    check "$what the Deployment was never made anew" equal "$(of_deployment '{.metadata.uid}')" "$uid"
    check "$what the Service kept its address" \
      equal "$(kubectl -n "$namespace" get service "$service" -o jsonpath='{.spec.clusterIP}')" "$address"
    check "$what it is uninstalled" "$helm" uninstall charts-test -n "$namespace"
    check "$what the inventory's claim stays" kubectl -n "$namespace" get persistentvolumeclaim "$service"
    check "$what the CRD stays" kubectl get crd openstackconfigs.multinic.example.com
  }
}

# Without --reuse-values the user gives the values again, and must.
upgrade helm4 "$HELM" "" "--set persistence.enabled=true" RollingUpdate
upgrade helm4-reuse "$HELM" "" --reuse-values RollingUpdate
upgrade helm4-client "$HELM" --server-side=false --reuse-values Recreate
if command -v "$HELM3" >/dev/null; then
  upgrade helm3 "$HELM3" "" "--set persistence.enabled=true" Recreate
  upgrade helm3-reuse "$HELM3" "" --reuse-values Recreate
  upgrade helm3-then-4 "$HELM3" "" --reuse-values Recreate "$HELM"
fi

# --- rights: what the ServiceAccount may do, and what it may not
can() { # can ANSWER VERB RESOURCE [FLAG...]
  local answer=$1
  shift
  equal "$(kubectl auth can-i "$@" --as "system:serviceaccount:$namespace:charts-test-multinic-operator" 2>/dev/null)" "$answer"
}
fresh rights
# It may be the previous chart's by now.
check "rights: the CRD is brought up to date" make --silent install
other=default
check "rights: installed for one namespace" "$HELM" install charts-test charts/multinic-operator -n "$namespace" \
  --set "watch.namespaces={$namespace}" --set leaderElection.enabled=true
check "rights: reads a Secret there" can yes get secrets/any -n "$namespace"
check "rights: lists no Secrets" can no list secrets -n "$namespace"
check "rights: reads no Secret elsewhere" can no get secrets/any -n "$other"
check "rights: watches objects there" can yes watch openstackconfigs.multinic.example.com -n "$namespace"
check "rights: watches none elsewhere" can no watch openstackconfigs.multinic.example.com -n "$other"
check "rights: writes status" can yes patch openstackconfigs.multinic.example.com --subresource=status -n "$namespace"
check "rights: writes no spec" can no patch openstackconfigs.multinic.example.com -n "$namespace"
check "rights: holds its Lease" can yes update leases.coordination.k8s.io/9a0428b3.example.com -n "$namespace"
check "rights: touches no other Lease" can no update leases.coordination.k8s.io/other -n "$namespace"
check "rights: writes Events" can yes create events.events.k8s.io -n "$namespace"
check "rights: writes its own CRD" can yes patch crd/openstackconfigs.multinic.example.com
check "rights: writes no other CRD" can no patch crd/others.example.com
check "rights: uninstalled" "$HELM" uninstall charts-test -n "$namespace"

# --- the Viola test API and its CRD
fresh viola
check "viola: installed" "$HELM" install charts-test charts/viola-test-api -n "$namespace"
check "viola: ports" equal "$(kubectl -n "$namespace" get service viola-api -o jsonpath='{.spec.ports[*].port}')" "80 8080"
check "viola: the CRD is established" kubectl wait --for=condition=Established crd/multinicnodeconfigs.multinic.io --timeout=30s
node() { # node INTERFACES - a MultiNicNodeConfig with these
  kubectl -n "$namespace" apply --server-side -f - <<YAML
{apiVersion: multinic.io/v1alpha1, kind: MultiNicNodeConfig, metadata: {name: worker-1}, spec: {nodeName: worker-1, interfaces: $1}}
YAML
}
refused() { ! node "$1" || { echo "taken: $1"; return 1; }; }
check "viola: an object is taken" node '[{id: 0, name: multinic0, macAddress: "fa:16:3e:00:00:01", address: 192.0.2.5, cidr: 192.0.2.0/24, mtu: 1450, portId: a}]'
check "viola: its short name" kubectl -n "$namespace" get mnnc worker-1
check "viola: no interfaces are refused" refused '[]'
check "viola: no MAC is refused" refused '[{id: 0}]'
check "viola: a short MAC is refused" refused '[{macAddress: "fa:16:3e:00:01"}]'
check "viola: a wrong name is refused" refused '[{macAddress: "fa:16:3e:00:00:01", name: eth0}]'
check "viola: a small MTU is refused" refused '[{macAddress: "fa:16:3e:00:00:01", mtu: 67}]'
check "viola: uninstalled" "$HELM" uninstall charts-test -n "$namespace"

# --- without Helm
fresh make
made() { make --silent "$@" NAMESPACE="$namespace" DIST="$work/dist" HELM="$HELM" IMG=registry.example.com/nics:1; }
check "make: install" made install
check "make: deploy" made deploy
check "make: the Deployment" equal "$(kubectl -n "$namespace" get deployment multinic-operator -o jsonpath="$image")" registry.example.com/nics:1
check "make: deploy again" made deploy
check "make: undeploy" made undeploy
check "make: nothing is left" equal "$(kubectl -n "$namespace" get deployment,service,role,rolebinding -o name)" ""
check "make: the CRD stays" kubectl get crd openstackconfigs.multinic.example.com

printf '\n%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
