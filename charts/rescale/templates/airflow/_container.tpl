{{/* Variables by which tasks find the template of the driver's pod, the windows and the settings. */}}
{{- define "rescale.airflow.env" -}}
- name: RESCALE_DRIVER_POD
  value: /etc/rescale/airflow/driver.yaml
{{ include "rescale.cluster.env" . }}
{{- if .Values.windows }}
- name: RESCALE_WINDOWS
  value: /etc/rescale/airflow/windows.yaml
{{- end }}
{{- if .Values.settings }}
- name: RESCALE_SETTINGS
  value: /etc/rescale/airflow/settings.yaml
{{- end }}
{{- end }}

{{/* Fields that all containers of the chart's own Airflow share. Volume mounts come last, so that users can append more. */}}
{{- define "rescale.airflow.container" -}}
image: {{ include "rescale.image.airflow" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  {{- include "rescale.airflow.env" . | nindent 2 }}
  {{- include "rescale.s3.env" . | nindent 2 }}
  {{- include "rescale.network.env" . | nindent 2 }}
  - name: AIRFLOW_HOME
    value: /var/lib/airflow
  - name: AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION
    value: "False"
  - name: AIRFLOW__CORE__PARALLELISM
    value: {{ .Values.airflow.parallelism | quote }}
  - name: AIRFLOW__CORE__EXECUTION_API_SERVER_URL
    value: http://localhost:8080/execution/
  - name: AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS
    value: admin:admin
  - name: AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE
    value: /var/lib/airflow/passwords.json
  - name: AIRFLOW__API__SECRET_KEY
    valueFrom: {secretKeyRef: {name: {{ .Values.airflow.secret | quote }}, key: secret}}
  - name: AIRFLOW__API_AUTH__JWT_SECRET
    valueFrom: {secretKeyRef: {name: {{ .Values.airflow.secret | quote }}, key: secret}}
  - name: AIRFLOW__CORE__FERNET_KEY
    valueFrom: {secretKeyRef: {name: {{ .Values.airflow.secret | quote }}, key: fernet-key, optional: true}}
  {{- if .Values.airflow.database.external }}
  - name: AIRFLOW__DATABASE__SQL_ALCHEMY_CONN
    valueFrom: {secretKeyRef: {name: {{ .Values.airflow.secret | quote }}, key: database}}
  {{- end }}
  - name: AIRFLOW__USAGE_DATA_COLLECTION__ENABLED
    value: "False"
  {{- include "rescale.items" .Values.airflow.env | nindent 2 }}
{{- with include "rescale.s3.envFrom" . }}
envFrom: {{- . | nindent 2 }}
{{- end }}
resources: {{- toYaml .Values.airflow.resources | nindent 2 }}
securityContext: {{- include "rescale.containerSecurity" . | nindent 2 }}
volumeMounts:
  - {name: home, mountPath: /var/lib/airflow}
  - {name: tmp, mountPath: /tmp}
  - {name: rescale, mountPath: /etc/rescale/airflow, readOnly: true}
  {{- include "rescale.ca.mount" . | nindent 2 }}
  {{- include "rescale.items" .Values.airflow.volumeMounts | nindent 2 }}
{{- end }}

{{/* Probes of a component without a port, by its heartbeat, which the api-server reports. */}}
{{- define "rescale.airflow.probes" -}}
{{- $probe := include "rescale.airflow.heartbeat" . | fromYaml }}
startupProbe: {{- merge (dict "periodSeconds" 10 "failureThreshold" 60 "timeoutSeconds" 20) $probe | toYaml | nindent 2 }}
livenessProbe: {{- merge (dict "periodSeconds" 60 "failureThreshold" 5 "timeoutSeconds" 20) $probe | toYaml | nindent 2 }}
{{- end }}

{{- define "rescale.airflow.heartbeat" -}}
exec:
  command:
    - python3
    - -c
    - |
      import json, sys, urllib.request
      try:
          health = json.load(urllib.request.urlopen("http://localhost:8080/api/v2/monitor/health", timeout=10))
      except (OSError, ValueError):
          sys.exit()  # the api-server has probes of its own
      sys.exit(health[sys.argv[1]]["status"] == "unhealthy")
    - {{ . | replace "-" "_" }}
{{- end }}
