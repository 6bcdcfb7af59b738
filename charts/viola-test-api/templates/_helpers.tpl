{{/* Gives every value that is not there its default, for `helm upgrade --reuse-values`. */}}
{{- define "viola-test-api.init" -}}
{{- include "viola-test-api.fill" (list .Values (.Files.Get "files/defaults.yaml" | fromYaml)) -}}
{{- end -}}

{{/* Maps that are the user's as a whole: a key that was set to null there stays away. */}}
{{- define "viola-test-api.wholeMaps" -}}
resources podSecurityContext containerSecurityContext nodeSelector affinity annotations podLabels podAnnotations commonLabels
{{- end -}}

{{- define "viola-test-api.fill" -}}
{{- $values := index . 0 -}}
{{- $wholeMaps := regexSplit "\\s+" (include "viola-test-api.wholeMaps" .) -1 -}}
{{- range $key, $default := index . 1 -}}
  {{- if kindIs "invalid" (index $values $key) -}}
    {{- $_ := set $values $key $default -}}
  {{- else if and (kindIs "map" $default) (not (has $key $wholeMaps)) -}}
    {{- include "viola-test-api.fill" (list (index $values $key) $default) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "viola-test-api.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "viola-test-api.fullname" -}}
{{- default (printf "%s-%s" .Release.Name (include "viola-test-api.name" .)) .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Immutable in a Deployment: these two and no more. */}}
{{- define "viola-test-api.selectorLabels" -}}
app.kubernetes.io/name: {{ include "viola-test-api.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "viola-test-api.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" (include "viola-test-api.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/version" .Chart.AppVersion
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_")
-}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{- define "viola-test-api.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ include "viola-test-api.fullname" . }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "viola-test-api.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{- /* A date as a tag is a number in YAML. */ -}}
{{ .repository }}:{{ ternary (printf "%.0f" .tag) (toString .tag) (kindIs "float64" .tag) | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "viola-test-api.listenAddr" -}}
{{- default (printf ":%v" .Values.service.targetPort) .Values.env.listenAddr -}}
{{- end -}}
