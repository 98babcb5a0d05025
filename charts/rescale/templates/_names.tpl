{{/*
Prefix of all names: short enough for suffixes, valid as the name of a Service, and unique for every release.
*/}}
{{- define "rescale.name" -}}
{{- $whole := .Release.Name }}
{{- if not (contains "rescale" $whole) }}{{ $whole = printf "%s-rescale" $whole }}{{ end }}
{{- if not (regexMatch "^[a-z]" $whole) }}{{ $whole = printf "rescale-%s" .Release.Name }}{{ end }}
{{- $name := $whole | replace "." "-" }}
{{- if or (gt (len $name) 40) (ne $name $whole) }}
{{- $name = printf "%s-%s" ($name | trunc 31 | trimSuffix "-") ($whole | sha256sum | trunc 8) }}
{{- end }}
{{- $name }}
{{- end }}

{{/* Labels of all resources. */}}
{{- define "rescale.labels" -}}
{{ include "rescale.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "rescale.selector" -}}
app.kubernetes.io/name: rescale
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* Name of the service account for `account` (driver, executor, airflow); `root` is the root context. */}}
{{- define "rescale.account" -}}
{{- get .root.Values.serviceAccounts.names .account | default (printf "%s-%s" (include "rescale.name" .root) .account) }}
{{- end }}

{{/* Reference to an image by its digest, or otherwise by its tag. Arguments: `image`, a section of the values; `root`. */}}
{{- define "rescale.image" -}}
{{- if .image.digest }}
{{- .image.repository }}@{{ .image.digest }}
{{- else }}
{{- .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "rescale.image.spark" -}}
{{ include "rescale.image" (dict "root" . "image" .Values.image.spark) }}
{{- end }}

{{- define "rescale.image.airflow" -}}
{{ include "rescale.image" (dict "root" . "image" .Values.image.airflow) }}
{{- end }}

{{/* Whether an Airflow starts pods: the chart's own, or an existing one. */}}
{{- define "rescale.withAirflow" -}}
{{- if or .Values.airflow.enabled .Values.existingAirflow.serviceAccounts }}yes{{ end }}
{{- end }}

{{/* Namespaces in which an Airflow runs, as JSON. Each gets a ConfigMap, since pods cannot mount those of others. */}}
{{- define "rescale.airflow.namespaces" -}}
{{- $namespaces := list }}
{{- if .Values.airflow.enabled }}{{ $namespaces = append $namespaces .Release.Namespace }}{{ end }}
{{- range .Values.existingAirflow.serviceAccounts }}
{{- $namespaces = append $namespaces (.namespace | default $.Release.Namespace) }}
{{- end }}
{{- uniq $namespaces | toJson }}
{{- end }}

{{/* The service accounts of Airflow, as subjects of a binding. */}}
{{- define "rescale.airflow.subjects" -}}
{{- if .Values.airflow.enabled }}
- kind: ServiceAccount
  name: {{ include "rescale.account" (dict "root" . "account" "airflow") | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}
{{- range .Values.existingAirflow.serviceAccounts }}
- kind: ServiceAccount
  name: {{ .name | quote }}
  namespace: {{ .namespace | default $.Release.Namespace | quote }}
{{- end }}
{{- end }}
