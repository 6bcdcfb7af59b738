#!/usr/bin/env bash
# manifests.sh IMAGE NAMESPACE DIST [HELM_ARGUMENT...] - renders the chart into DIST/install.yaml, one file for
# `kubectl apply --server-side -f`, and DIST/kustomize, the same as a base.
set -euo pipefail
image=$1 namespace=$2 dist=$3
shift 3
chart=$(cd "$(dirname "$0")/.." && pwd)/charts/multinic-operator
base=$dist/kustomize
mkdir -p "$base"

# A port belongs to the registry, what follows the last colon of the last part is the tag.
repository=$image tag=""
if [[ ${image##*/} == *:* ]]; then repository=${image%:*} tag=${image##*:}; fi

cat >"$base/namespace.yaml" <<YAML
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
YAML
cat "$chart"/crds/*.yaml >"$base/crds.yaml"
# Nobody but Helm may say that Helm manages an object, and its annotations mean nothing here.
"${HELM:-helm}" template multinic-operator "$chart" --namespace "$namespace" \
  --set fullnameOverride=multinic-operator \
  --set-string "image.repository=$repository" --set-string "image.tag=$tag" "$@" |
  sed -e '/^ *app.kubernetes.io\/managed-by: Helm$/d' -e '/^ *helm.sh\/chart: /d' -e '/^$/d' >"$base/operator.yaml"
cat >"$base/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - namespace.yaml
  - crds.yaml
  - operator.yaml
YAML
{
  cat "$base/namespace.yaml"
  echo ---
  cat "$base/crds.yaml"
  cat "$base/operator.yaml"
} >"$dist/install.yaml"
echo "wrote $dist/install.yaml and $base"
