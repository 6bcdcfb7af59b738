{{- define "previous.app" -}}
{{ .Values.nameOverride | default .Chart.Name }}
{{- end -}}
{{- define "previous.full" -}}
{{ .Values.fullnameOverride | default (printf "%s-%s" .Release.Name (include "previous.app" .)) }}
{{- end -}}
{{- define "previous.account" -}}
{{ .Values.serviceAccount.name | default (include "previous.full" .) }}
{{- end -}}
{{- define "previous.selector" -}}
{control-plane: controller-manager, app.kubernetes.io/name: {{ include "previous.app" . }}, app.kubernetes.io/instance: {{ .Release.Name }}}
{{- end -}}
{{- define "previous.meta" -}}
{name: {{ index . 1 }}, namespace: {{ (index . 0).Release.Namespace }}, labels: {{ include "previous.selector" (index . 0) }}}
{{- end -}}
{{- define "previous.clusterMeta" -}}
{name: {{ index . 1 }}, labels: {{ include "previous.selector" (index . 0) }}}
{{- end -}}
