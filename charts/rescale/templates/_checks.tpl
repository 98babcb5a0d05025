{{/* Checks of values that depend on each other, which the schema cannot express. serviceaccounts.yaml, which is always
rendered, includes them. */}}
{{- define "rescale.checks" -}}
{{- $run := .Values.run }}
{{- if and $run.source (not $run.target) }}{{ fail "run.target: set it to the directory of the result; run.source is set" }}{{ end }}
{{- if and $run.target (not $run.source) }}{{ fail "run.source: set it to a savepoint or checkpoint; run.target is set" }}{{ end }}
{{- if $run.source }}
{{- $source := include "rescale.directory" $run.source }}
{{- $target := include "rescale.directory" $run.target }}
{{- if or (hasPrefix $source $target) (hasPrefix $target $source) }}
{{- fail "run.target: name a directory that is not inside the source and does not contain it" }}
{{- end }}
{{- end }}
{{- if and $run.sparkOperator (not $run.source) }}
{{- fail "run.sparkOperator: there is no run; set run.source and run.target" }}
{{- end }}

{{- $overhead := ternary 640 384 $run.sparkOperator }}
{{- $heap := include "rescale.mib" (printf "%si" (upper .Values.driver.memory)) | float64 }}
{{- with (.Values.driver.resources.limits | default dict).memory }}
{{- if gt (addf $heap $overhead) (include "rescale.mib" . | float64) }}
{{- fail (printf "driver.memory: the heap of %s and %d MiB beside it exceed driver.resources.limits.memory, %v" $.Values.driver.memory $overhead .) }}
{{- end }}
{{- else }}
{{- if $run.sparkOperator }}{{ fail "driver.resources.limits.memory: set it; a SparkApplication requires it" }}{{ end }}
{{- end }}

{{- if not (include "rescale.withAirflow" .) }}
{{- if .Values.handover.namespaces }}
{{- fail "handover.namespaces: only an Airflow hands jobs over; set airflow.enabled or existingAirflow.serviceAccounts" }}
{{- end }}
{{- if .Values.settings }}
{{- fail "settings: only an Airflow has settings; set airflow.enabled or existingAirflow.serviceAccounts" }}
{{- end }}
{{- if .Values.windows }}
{{- fail "windows: only an Airflow has windows; set airflow.enabled or existingAirflow.serviceAccounts" }}
{{- end }}
{{- end }}
{{- if and .Values.airflow.enabled (not .Values.airflow.secret) }}
{{- fail "airflow.secret: set it to the name of a Secret with `secret` and `passwords.json`" }}
{{- end }}

{{- if not .Values.serviceAccounts.create }}
{{- range include "rescale.accounts" . | fromJsonArray }}
{{- if not (get $.Values.serviceAccounts.names .) }}
{{- fail (printf "serviceAccounts.names.%s: set it; with serviceAccounts.create=false the chart creates none" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.spark.encrypt (not .Values.spark.authenticate) }}
{{- fail "spark.encrypt: encryption needs the secret of spark.authenticate; set it to true" }}
{{- end }}
{{- end }}

{{/* A directory in S3, normalised: a directory inside it has it as a prefix. */}}
{{- define "rescale.directory" -}}
{{ regexReplaceAll "^s3[ap]?://" . "s3://" | trimAll "/" }}/
{{- end }}

{{/* A Kubernetes quantity in MiB. */}}
{{- define "rescale.mib" -}}
{{- $quantity := toString . }}
{{- $unit := regexFind "[a-zA-Z]*$" $quantity }}
{{- $bytes := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- divf (mulf (trimSuffix $unit $quantity | float64) (get $bytes $unit | float64)) 1048576 }}
{{- end }}

{{/* The service accounts of the chart's pods, as JSON. */}}
{{- define "rescale.accounts" -}}
{{- $accounts := list "driver" "executor" }}
{{- if .Values.airflow.enabled }}{{ $accounts = append $accounts "airflow" }}{{ end }}
{{- toJson $accounts }}
{{- end }}
