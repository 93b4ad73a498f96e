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

{{- define "csi-delta.not-proxied" -}}
$(KUBERNETES_SERVICE_HOST),.svc,.cluster.local,169.254.169.254,169.254.170.2,169.254.170.23,fd00:ec2::254,fd00:ec2::23,metadata.google.internal
{{- end }}

{{- define "csi-delta.pull-secrets" -}}
{{- range .Values.image.pullSecrets }}
- name: {{ . }}
{{- end }}
{{- end }}
