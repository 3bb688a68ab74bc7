{{- define "watchslo.name" -}}
watchslo-{{ .Values.profile }}
{{- end }}

{{- define "watchslo.labels" -}}
app.kubernetes.io/name: watchslo
app.kubernetes.io/instance: {{ include "watchslo.name" . }}
{{- end }}

{{- /* Also those that the user wants, which no selector may name. */}}
{{- define "watchslo.allLabels" -}}
{{- mergeOverwrite (dict) (.Values.labels | default dict) (include "watchslo.labels" . | fromYaml) | toYaml }}
{{- end }}

{{- define "watchslo.sharedLabels" -}}
{{- mergeOverwrite (dict) (.Values.labels | default dict) (dict "app.kubernetes.io/name" "watchslo") | toYaml }}
{{- end }}

{{- define "watchslo.metadata" -}}
name: {{ include "watchslo.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "watchslo.allLabels" . | nindent 2 }}
{{- end }}

{{- /* What the profile's file holds, as a list of objects. */}}
{{- define "watchslo.objects" -}}
{{- $objects := list }}
{{- range splitList "\n---\n" . }}
{{- $objects = append $objects (fromYaml .) }}
{{- end }}
{{- toYaml (dict "objects" $objects) }}
{{- end }}
