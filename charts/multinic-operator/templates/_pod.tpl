{{/* The command line: a flag only where it says something. */}}
{{- define "multinic-operator.args" -}}
- --health-probe-bind-address=:8081
- --metrics-bind-address={{ ternary (printf ":%v" .Values.metrics.port) "0" .Values.metrics.enabled }}
- {{ printf "--log-level=%s" .Values.logLevel | quote }}
- --log-format={{ .Values.logFormat }}
{{- with .Values.interfaceOrder }}
- --interface-order={{ . }}
{{- end }}
{{- with .Values.changePolicy }}
- --change-policy={{ . }}
{{- end }}
{{- range $flag, $value := dict "max-in-flight" .Values.cloud.maxInFlight "rate" .Values.cloud.rate "burst" .Values.cloud.burst }}
{{- with $value }}
- --cloud-{{ $flag }}={{ . }}
{{- end }}
{{- end }}
{{- with .Values.cloud.neutronRequestBytes }}
- --neutron-request-bytes={{ int . }}
{{- end }}
{{- if include "multinic-operator.hasCaBundle" . }}
- --ca-bundle=/etc/multinic-operator/ca/ca.crt
{{- end }}
{{- if .Values.api.tokenSecret.name }}
- --api-token-file=/etc/multinic-operator/api-token/token
{{- end }}
{{- if .Values.api.tls.secretName }}
- --api-tls-cert=/etc/multinic-operator/api-tls/tls.crt
- --api-tls-key=/etc/multinic-operator/api-tls/tls.key
{{- end }}
{{- with .Values.watch.namespaces }}
- --watch-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.watch.configSelector }}
- {{ printf "--config-selector=%s" . | quote }}
{{- end }}
{{- if .Values.leaderElection.enabled }}
- --leader-elect
- --leader-election-id={{ .Values.leaderElection.id }}
{{- end }}
{{- if include "multinic-operator.stateConfigMapIsOn" . }}
- --state-configmap
{{- end }}
{{- if .Values.manageCRDs }}
- --manage-crds
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Variables as a list; one of extraEnv replaces the chart's own of that name. */}}
{{- define "multinic-operator.env" -}}
{{- $replaced := list -}}
{{- range .Values.extraEnv -}}
{{- $replaced = append $replaced .name -}}
{{- end -}}
{{- $own := list
  (list "INVENTORY_ENABLED" .Values.inventory.enabled)
  (list "INVENTORY_ADDR" .Values.inventory.addr)
  (list "INVENTORY_DB_PATH" .Values.inventory.dbPath)
  (list "VIOLA_ENDPOINT" .Values.operatorConfig.violaEndpoint)
  (list "VIOLA_TIMEOUT" .Values.operatorConfig.violaTimeout)
  (list "VIOLA_INSECURE_TLS" .Values.operatorConfig.violaInsecureTLS)
  (list "VIOLA_TOKEN_FILE" (ternary "/etc/multinic-operator/viola-token/token" "" (ne .Values.operatorConfig.violaTokenSecret.name "")))
  (list "HTTP_PROXY" .Values.proxy.http)
  (list "HTTPS_PROXY" .Values.proxy.https)
  (list "NO_PROXY" .Values.proxy.no)
-}}
{{- range $own -}}
{{- $value := index . 1 | toString -}}
{{- if and $value (not (has (index . 0) $replaced)) }}
- name: {{ index . 0 }}
  value: {{ $value | quote }}
{{- end -}}
{{- end -}}
{{- $fields := dict -}}
{{- if .Values.leaderElection.enabled -}}
{{- $_ := set $fields "POD_NAMESPACE" "metadata.namespace" -}}
{{- if gt (int .Values.replicaCount) 1 -}}
{{- $_ := set $fields "POD_NAME" "metadata.name" -}}
{{- end -}}
{{- end -}}
{{- range $name, $path := $fields -}}
{{- if not (has $name $replaced) }}
- name: {{ $name }}
  valueFrom:
    fieldRef:
      fieldPath: {{ $path }}
{{- end -}}
{{- end -}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{- define "multinic-operator.mounts" -}}
{{- if .Values.inventory.enabled }}
- name: inventory-data
  mountPath: {{ include "multinic-operator.inventoryFolder" . }}
{{- end }}
{{- if include "multinic-operator.hasCaBundle" . }}
- name: ca-bundle
  mountPath: /etc/multinic-operator/ca
  readOnly: true
{{- end }}
{{- if .Values.api.tokenSecret.name }}
- name: api-token
  mountPath: /etc/multinic-operator/api-token
  readOnly: true
{{- end }}
{{- if .Values.api.tls.secretName }}
- name: api-tls
  mountPath: /etc/multinic-operator/api-tls
  readOnly: true
{{- end }}
{{- if .Values.operatorConfig.violaTokenSecret.name }}
- name: viola-token
  mountPath: /etc/multinic-operator/viola-token
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "multinic-operator.volumes" -}}
{{- if .Values.inventory.enabled }}
- name: inventory-data
  {{- if .Values.persistence.enabled }}
  persistentVolumeClaim:
    claimName: {{ include "multinic-operator.claimName" . }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- if include "multinic-operator.hasCaBundle" . }}
- name: ca-bundle
  {{- with .Values.caBundle }}
  {{- if .secretName }}
  secret:
    secretName: {{ .secretName }}
    items: [{key: {{ .key | quote }}, path: ca.crt}]
  {{- else }}
  configMap:
    name: {{ default (include "multinic-operator.suffixed" (list $ "ca")) .configMapName }}
    items: [{key: {{ ternary .key "ca.crt" (ne .configMapName "") | quote }}, path: ca.crt}]
  {{- end }}
  {{- end }}
{{- end }}
{{- with .Values.api.tokenSecret }}
{{- if .name }}
- name: api-token
  secret:
    secretName: {{ .name }}
    items: [{key: {{ .key | quote }}, path: token}]
{{- end }}
{{- end }}
{{- with .Values.api.tls.secretName }}
- name: api-tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .Values.operatorConfig.violaTokenSecret }}
{{- if .name }}
- name: viola-token
  secret:
    secretName: {{ .name }}
    items: [{key: {{ .key | quote }}, path: token}]
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Probes ask the health port; a user's fields replace the chart's. */}}
{{- define "multinic-operator.probe" -}}
{{- $own := dict "httpGet" (dict "path" (index . 0) "port" "health") "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3 -}}
{{- toYaml (mergeOverwrite $own (index . 1)) -}}
{{- end -}}

{{- define "multinic-operator.spread" -}}
{{- $selector := dict "matchLabels" (include "multinic-operator.selectorLabels" . | fromYaml) -}}
{{- range .Values.topologySpreadConstraints }}
- {{ merge (deepCopy .) (dict "labelSelector" $selector) | toYaml | nindent 2 | trim }}
{{- end -}}
{{- end -}}
