{{/* One rescale, as the pod of a Job or as an application of Spark's operator. */}}

{{/* The arguments of `rescale`, as JSON. */}}
{{- define "rescale.run.args" -}}
{{- $run := .Values.run }}
{{- $args := list "run" $run.source "--target" $run.target "--master" "k8s://https://kubernetes.default.svc" }}
{{- with $run.parallelism }}{{ $args = concat $args (list "--parallelism" (toString (int .))) }}{{ end }}
{{- with $run.maxParallelism }}{{ $args = concat $args (list "--max-parallelism" (toString (int .))) }}{{ end }}
{{- concat $args $run.options | toJson }}
{{- end }}

{{/* Metadata and spec of the pod of a Job. The checksum changes with the configuration, and so does the run's name. */}}
{{- define "rescale.run.pod" -}}
{{- $section := deepCopy .Values.driver }}
{{- $_ := set $section "annotations" (merge (dict "checksum/config" (include "rescale.run.checksum" .)) $section.annotations) }}
{{- $args := prepend (include "rescale.run.args" . | fromJsonArray) "rescale" -}}
metadata: {{- include "rescale.pod.metadata" (dict "root" . "component" "driver" "section" $section) | nindent 2 }}
spec: {{- include "rescale.driver.spec" (dict "root" . "args" $args "awaitsSecret" true) | nindent 2 }}
{{- end }}

{{- define "rescale.run.checksum" -}}
{{ print (include "rescale.spark.conf" .) (include "rescale.executor.pod" .) | sha256sum }}
{{- end }}

{{/* Name of the run, with a hash of its pod: Jobs and SparkApplications cannot be changed, so a changed run gets another
name and replaces the old one. */}}
{{- define "rescale.run.name" -}}
{{- include "rescale.name" . }}-run-{{ include "rescale.run.pod" . | sha256sum | trunc 8 }}
{{- end }}
