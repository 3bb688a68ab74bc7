{{- define "watchslo.name" -}}
watchslo-{{ .Values.profile }}
{{- end }}

{{- define "watchslo.labels" -}}
app.kubernetes.io/name: watchslo
app.kubernetes.io/instance: {{ include "watchslo.name" . }}
{{- end }}

{{- define "watchslo.metadata" -}}
name: {{ include "watchslo.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "watchslo.labels" . | nindent 2 }}
{{- end }}

{{- /* What the profile's file holds, as a list of objects. */}}
{{- define "watchslo.objects" -}}
{{- $objects := list }}
{{- range splitList "\n---\n" . }}
{{- $objects = append $objects (fromYaml .) }}
{{- end }}
{{- toYaml (dict "objects" $objects) }}
{{- end }}
