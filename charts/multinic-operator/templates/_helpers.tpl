{{/*
Gives every value that is not there its default. `helm upgrade --reuse-values` brings the values of the chart that
was installed before, which may know none of ours; every template begins with this.
*/}}
{{- define "multinic-operator.init" -}}
{{- include "multinic-operator.fill" (list .Values (.Files.Get "files/defaults.yaml" | fromYaml)) -}}
{{- end -}}

{{/*
Maps that are the user's as a whole: a key that was set to null there stays away.
*/}}
{{- define "multinic-operator.wholeMaps" -}}
resources podSecurityContext containerSecurityContext nodeSelector affinity labels annotations podLabels podAnnotations
deploymentAnnotations commonLabels livenessProbe readinessProbe strategy dnsConfig
{{- end -}}

{{- define "multinic-operator.fill" -}}
{{- $values := index . 0 -}}
{{- $wholeMaps := regexSplit "\\s+" (include "multinic-operator.wholeMaps" .) -1 -}}
{{- range $key, $default := index . 1 -}}
  {{- if kindIs "invalid" (index $values $key) -}}
    {{- $_ := set $values $key $default -}}
  {{- else if and (kindIs "map" $default) (not (has $key $wholeMaps)) -}}
    {{- include "multinic-operator.fill" (list (index $values $key) $default) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "multinic-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* `<release>-<name>` also where the release is called like the chart: names must not change in an upgrade. */}}
{{- define "multinic-operator.fullname" -}}
{{- $name := printf "%s-%s" .Release.Name (default .Chart.Name .Values.nameOverride) -}}
{{- default $name .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* A name with a suffix, within 63 characters: {{ include … (list $ "metrics") }} */}}
{{- define "multinic-operator.suffixed" -}}
{{- $suffix := index . 1 -}}
{{- $room := sub 62 (len $suffix) | int -}}
{{- printf "%s-%s" (include "multinic-operator.fullname" (index . 0) | trunc $room | trimSuffix "-") $suffix -}}
{{- end -}}

{{/* Immutable in a Deployment: these three and no more. */}}
{{- define "multinic-operator.selectorLabels" -}}
control-plane: controller-manager
app.kubernetes.io/name: {{ include "multinic-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "multinic-operator.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" (include "multinic-operator.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/version" .Chart.AppVersion
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_")
-}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{- define "multinic-operator.serviceAccountName" -}}
{{- default (include "multinic-operator.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "multinic-operator.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{- /* A date as a tag is a number in YAML. */ -}}
{{ .repository }}:{{ ternary (printf "%.0f" .tag) (toString .tag) (kindIs "float64" .tag) | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "multinic-operator.claimName" -}}
{{- default (printf "%s-inventory" (include "multinic-operator.fullname" .)) .Values.persistence.existingClaim -}}
{{- end -}}

{{/* The port of an address such as `:18081`, `0.0.0.0:18081` or `[::]:18081`. */}}
{{- define "multinic-operator.inventoryPort" -}}
{{- regexFind "[0-9]+$" .Values.inventory.addr -}}
{{- end -}}

{{/* The mount point that the chart always had where the file lies below it, else the file's folder. */}}
{{- define "multinic-operator.inventoryFolder" -}}
{{- $usual := "/var/lib/multinic-operator" -}}
{{- if hasPrefix (printf "%s/" $usual) .Values.inventory.dbPath -}}
{{ $usual }}
{{- else -}}
{{ dir .Values.inventory.dbPath }}
{{- end -}}
{{- end -}}

{{/* "true" where the volume can be mounted by several pods. */}}
{{- define "multinic-operator.volumeIsShared" -}}
{{- if or (not .Values.inventory.enabled) (not .Values.persistence.enabled) (has "ReadWriteMany" .Values.persistence.accessModes) -}}
true
{{- end -}}
{{- end -}}

{{- define "multinic-operator.stateConfigMapIsOn" -}}
{{- $enabled := .Values.stateConfigMap.enabled | toString -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (not .Values.persistence.enabled)) -}}
true
{{- end -}}
{{- end -}}

{{- define "multinic-operator.hasCaBundle" -}}
{{- with .Values.caBundle -}}
{{- if or .pem .configMapName .secretName -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Without leader election, or on a volume that only one pod can mount, the old pod goes before the new one comes.
A server-side apply cannot make a RollingUpdate a Recreate (the defaulted `rollingUpdate` stays and is refused), so
a Deployment that Helm applied that way keeps RollingUpdate, one pod at a time.
*/}}
{{- define "multinic-operator.strategy" -}}
{{- if .Values.strategy -}}
{{ toYaml .Values.strategy }}
{{- else if and .Values.leaderElection.enabled (include "multinic-operator.volumeIsShared" .) -}}
type: RollingUpdate
{{- else if include "multinic-operator.mustKeepRollingUpdate" . -}}
type: RollingUpdate
rollingUpdate:
  maxSurge: 0
  maxUnavailable: 1
{{- else -}}
type: Recreate
{{- end -}}
{{- end -}}

{{- define "multinic-operator.mustKeepRollingUpdate" -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace (include "multinic-operator.fullname" .) | default dict -}}
{{- if dig "spec" "strategy" "rollingUpdate" "" $live -}}
{{- range dig "metadata" "managedFields" list $live -}}
{{- if eq (index . "operation") "Apply" -}}true{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Combinations that cannot work, each refused with what to do. */}}
{{- define "multinic-operator.refuse" -}}
{{- if gt (int .Values.replicaCount) 1 -}}
{{- if not .Values.leaderElection.enabled -}}
{{- fail "replicaCount: several replicas would all poll and post; set leaderElection.enabled=true or replicaCount=1" -}}
{{- end -}}
{{- if not (include "multinic-operator.volumeIsShared" .) -}}
{{- fail "replicaCount: several replicas need a volume that all can mount; add ReadWriteMany to persistence.accessModes, or set persistence.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The rules for a watched namespace, or for all. */}}
{{- define "multinic-operator.watchRules" -}}
- apiGroups: [multinic.example.com]
  resources: [openstackconfigs]
  verbs: [get, list, watch]
- apiGroups: [multinic.example.com]
  resources: [openstackconfigs/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if include "multinic-operator.stateConfigMapIsOn" . }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create, patch, delete]
{{- end }}
{{- with .Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "multinic-operator.subject" -}}
- kind: ServiceAccount
  name: {{ include "multinic-operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
