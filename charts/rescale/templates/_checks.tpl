{{/* What the schema cannot say: what goes with what. Included once, by what is always rendered. */}}
{{- define "rescale.checks" -}}
{{- $run := .Values.run }}
{{- if and $run.source (not $run.target) }}{{ fail "run.target: where does the result go?" }}{{ end }}
{{- if and $run.target (not $run.source) }}{{ fail "run.source: which savepoint is it?" }}{{ end }}
{{- if $run.source }}
{{- $source := include "rescale.place" $run.source }}
{{- $target := include "rescale.place" $run.target }}
{{- if or (hasPrefix $source $target) (hasPrefix $target $source) }}
{{- fail "run.target: the result needs a directory apart from the source, neither within it nor around it" }}
{{- end }}
{{- end }}
{{- if and $run.sparkOperator (not $run.source) }}
{{- fail "run.sparkOperator: which savepoint is to be rescaled? Set run.source and run.target" }}
{{- end }}

{{- $beside := ternary 640 384 $run.sparkOperator }}
{{- $heap := include "rescale.mib" (printf "%si" (upper .Values.driver.memory)) | float64 }}
{{- with (.Values.driver.resources.limits | default dict).memory }}
{{- if gt (addf $heap $beside) (include "rescale.mib" . | float64) }}
{{- fail (printf "driver.memory: a heap of %s and %d MiB beside it are more than driver.resources.limits.memory, %v" $.Values.driver.memory $beside .) }}
{{- end }}
{{- else }}
{{- if $run.sparkOperator }}{{ fail "driver.resources.limits.memory: a SparkApplication needs it" }}{{ end }}
{{- end }}

{{- if not (include "rescale.withAirflow" .) }}
{{- if .Values.handover.namespaces }}
{{- fail "handover.namespaces: only an Airflow hands jobs over: enable airflow, or name existingAirflow.serviceAccounts" }}
{{- end }}
{{- if .Values.settings }}
{{- fail "settings: they are those of an Airflow: enable airflow, or name existingAirflow.serviceAccounts" }}
{{- end }}
{{- if .Values.windows }}
{{- fail "windows: only an Airflow has any: enable airflow, or name existingAirflow.serviceAccounts" }}
{{- end }}
{{- end }}
{{- if and .Values.airflow.enabled (not .Values.airflow.secret) }}
{{- fail "airflow.secret: which Secret holds `secret` and `passwords.json`?" }}
{{- end }}

{{- if not .Values.serviceAccounts.create }}
{{- range include "rescale.accounts" . | fromJsonArray }}
{{- if not (get $.Values.serviceAccounts.names .) }}
{{- fail (printf "serviceAccounts.names.%s: which one is it, when the chart does not make it?" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.spark.encrypt (not .Values.spark.authenticate) }}
{{- fail "spark.encrypt: the key comes of the secret that spark.authenticate makes" }}
{{- end }}
{{- end }}

{{/* A directory in S3, so that one within it begins with it. */}}
{{- define "rescale.place" -}}
{{ regexReplaceAll "^s3[ap]?://" . "s3://" | trimAll "/" }}/
{{- end }}

{{/* MiB of a quantity of Kubernetes. */}}
{{- define "rescale.mib" -}}
{{- $quantity := toString . }}
{{- $unit := regexFind "[a-zA-Z]*$" $quantity }}
{{- $bytes := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- divf (mulf (trimSuffix $unit $quantity | float64) (get $bytes $unit | float64)) 1048576 }}
{{- end }}

{{/* The service accounts that pods of the chart run under, as JSON. */}}
{{- define "rescale.accounts" -}}
{{- $accounts := list "driver" "executor" }}
{{- if .Values.airflow.enabled }}{{ $accounts = append $accounts "airflow" }}{{ end }}
{{- toJson $accounts }}
{{- end }}
