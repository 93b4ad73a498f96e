{{- define "csi-delta.image" -}}
{{- with .Values.image.digest -}}
{{ $.Values.image.repository }}@{{ . }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "csi-delta.labels" -}}
app.kubernetes.io/name: csi-delta
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "csi-delta.pod-labels" -}}
app.kubernetes.io/name: csi-delta
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: datamover
{{- end }}

{{- define "csi-delta.pull-secrets" -}}
{{- range .Values.image.pullSecrets }}
- name: {{ . }}
{{- end }}
{{- end }}
