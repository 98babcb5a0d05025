{{/* What tells our tasks that steps are pods, and what there is to do regularly. */}}
{{- define "rescale.airflow.env" -}}
- name: RESCALE_DRIVER_POD
  value: /etc/rescale/airflow/driver.yaml
{{- if .Values.windows }}
- name: RESCALE_WINDOWS
  value: /etc/rescale/airflow/windows.yaml
{{- end }}
{{- end }}

{{/* What all containers of our own Airflow have; ends with their volume mounts, so that more can follow. */}}
{{- define "rescale.airflow.container" -}}
image: {{ include "rescale.image.airflow" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  {{- include "rescale.airflow.env" . | nindent 2 }}
  {{- include "rescale.s3.env" . | nindent 2 }}
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
    valueFrom: {secretKeyRef: {name: {{ .Values.airflow.secret }}, key: secret}}
  - name: AIRFLOW__API_AUTH__JWT_SECRET
    valueFrom: {secretKeyRef: {name: {{ .Values.airflow.secret }}, key: secret}}
  - name: AIRFLOW__CORE__FERNET_KEY
    valueFrom: {secretKeyRef: {name: {{ .Values.airflow.secret }}, key: fernet-key, optional: true}}
  {{- if .Values.airflow.database.external }}
  - name: AIRFLOW__DATABASE__SQL_ALCHEMY_CONN
    valueFrom: {secretKeyRef: {name: {{ .Values.airflow.secret }}, key: database}}
  {{- end }}
  - name: AIRFLOW__USAGE_DATA_COLLECTION__ENABLED
    value: "False"
  {{- with .Values.airflow.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with include "rescale.s3.envFrom" . }}
envFrom: {{- . | nindent 2 }}
{{- end }}
resources: {{- toYaml .Values.airflow.resources | nindent 2 }}
securityContext: {{- include "rescale.containerSecurity" . | nindent 2 }}
volumeMounts:
  - {name: home, mountPath: /var/lib/airflow}
  - {name: tmp, mountPath: /tmp}
  - {name: rescale, mountPath: /etc/rescale/airflow, readOnly: true}
{{- end }}
