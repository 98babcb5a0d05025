{{/* One rescale, as the pod of a Job or as an application of Spark's operator. */}}

{{/* The arguments of `rescale`, as JSON. */}}
{{- define "rescale.run.words" -}}
{{- $run := .Values.run }}
{{- $words := list "run" $run.source "--target" $run.target "--master" "k8s://https://kubernetes.default.svc" }}
{{- with $run.parallelism }}{{ $words = concat $words (list "--parallelism" (toString (int .))) }}{{ end }}
{{- with $run.maxParallelism }}{{ $words = concat $words (list "--max-parallelism" (toString (int .))) }}{{ end }}
{{- concat $words $run.options | toJson }}
{{- end }}

{{/* Metadata and spec of the pod of a Job. By the checksum, a changed configuration gives a new run. */}}
{{- define "rescale.run.pod" -}}
{{- $of := deepCopy .Values.driver }}
{{- $_ := set $of "annotations" (merge (dict "checksum/config" (include "rescale.run.checksum" .)) $of.annotations) }}
{{- $args := prepend (include "rescale.run.words" . | fromJsonArray) "rescale" -}}
metadata: {{- include "rescale.pod.metadata" (dict "root" . "component" "driver" "of" $of) | nindent 2 }}
spec: {{- include "rescale.driver.spec" (dict "root" . "args" $args "awaits" true) | nindent 2 }}
{{- end }}

{{- define "rescale.run.checksum" -}}
{{ print (include "rescale.spark.conf" .) (include "rescale.executor.pod" .) | sha256sum }}
{{- end }}

{{/* Name of the run, with a hash of its pod: Jobs and SparkApplications cannot be changed, so a changed run gets another
name and replaces the old one. */}}
{{- define "rescale.run.name" -}}
{{- include "rescale.name" . }}-run-{{ include "rescale.run.pod" . | sha256sum | trunc 8 }}
{{- end }}
