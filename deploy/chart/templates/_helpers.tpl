{{- define "watchslo.name" -}}
{{ .Values.fullnameOverride | default (printf "watchslo-%s" .Values.profile) }}
{{- end }}

{{- define "watchslo.labels" -}}
app.kubernetes.io/name: watchslo
app.kubernetes.io/instance: {{ include "watchslo.name" . }}
{{- end }}

{{- /* The labels of pods, including the labels of the values. Selectors must use watchslo.labels only. */}}
{{- define "watchslo.podLabels" -}}
{{- mergeOverwrite (dict) (.Values.labels | default dict) (include "watchslo.labels" . | fromYaml) | toYaml }}
{{- end }}

{{- /* The labels that Helm recommends. Pods do not have them: another version of the chart would replace every pod. */}}
{{- define "watchslo.helmLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "watchslo.allLabels" -}}
{{- mergeOverwrite (include "watchslo.podLabels" . | fromYaml) (include "watchslo.helmLabels" . | fromYaml) | toYaml }}
{{- end }}

{{- define "watchslo.sharedLabels" -}}
{{- $own := mergeOverwrite (dict "app.kubernetes.io/name" "watchslo") (include "watchslo.helmLabels" . | fromYaml) }}
{{- mergeOverwrite (dict) (.Values.labels | default dict) $own | toYaml }}
{{- end }}

{{- define "watchslo.metadata" -}}
name: {{ include "watchslo.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "watchslo.allLabels" . | nindent 2 }}
{{- end }}

{{- define "watchslo.image" -}}
{{- $version := print ":" (.Values.image.tag | default .Chart.AppVersion) }}
{{- with .Values.image.digest }}
{{- $version = print "@" . }}
{{- end }}
{{- print .Values.image.repository $version | quote }}
{{- end }}

{{- /* What a configuration may read, and the variables of the values. */}}
{{- define "watchslo.environment" -}}
- name: HOST_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- range $name, $value := (index .Values.profiles .Values.profile).env }}
- {name: {{ $name | quote }}, value: {{ $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "watchslo.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "watchslo.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* The objects of a profile's file, as a list. */}}
{{- define "watchslo.objects" -}}
{{- $objects := list }}
{{- range splitList "\n---\n" . }}
{{- $objects = append $objects (fromYaml .) }}
{{- end }}
{{- toYaml (dict "objects" $objects) }}
{{- end }}

{{- /* The kind of the monitor; by default none if the cluster has no Prometheus operator. A PodMonitor has no field for the file of Prometheus's own token. */}}
{{- define "watchslo.monitor" -}}
{{- $scraper := .Values.scraper }}
{{- $own := and .Values.authorization (not $scraper.tokenSecret) (not $scraper.scrapeClass) }}
{{- if and $own (eq ($scraper.monitor | default "") "PodMonitor") }}
{{- fail "With authorization, a PodMonitor needs scraper.scrapeClass or scraper.tokenSecret: it cannot send the token of Prometheus itself." }}
{{- end }}
{{- $operated := .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}
{{- $scraper.monitor | default (ternary (ternary "ServiceMonitor" "PodMonitor" $own) "none" $operated) }}
{{- end }}
