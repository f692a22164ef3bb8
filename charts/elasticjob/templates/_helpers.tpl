{{/* The release's name, with the chart's in it once. */}}
{{- define "elasticjob.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Labels by which a component's pods are found: they may never change. */}}
{{- define "elasticjob.selector" -}}
app.kubernetes.io/name: elasticjob
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "elasticjob.labels" -}}
{{ include "elasticjob.selector" . }}
app.kubernetes.io/part-of: elasticjob
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* host:port of etcd for the operator and the pods of jobs; several addresses are separated by commas. */}}
{{- define "elasticjob.etcdEndpoints" -}}
{{- $name := printf "%s-etcd" (include "elasticjob.fullname" .) -}}
{{- if not .Values.etcd.enabled -}}
{{ required "etcd.endpoints: name the etcd to use (HOST:PORT), or set etcd.enabled" (.Values.etcd.endpoints | join ",") }}
{{- else if eq (int .Values.etcd.members) 1 -}}
{{ $name }}.{{ .Release.Namespace }}.svc:2379
{{- else -}}
{{- /* One name that resolves to all members: gRPC tries the next address by itself. */ -}}
{{ $name }}-peers.{{ .Release.Namespace }}.svc:2379
{{- end -}}
{{- end }}

{{/* With etcd.tls: where the authority is, where etcd's own certificate, and by which names etcd is dialed. */}}
{{- define "elasticjob.caSecret" -}}
{{ .Values.etcd.tls.caSecret | default (printf "%s-etcd-ca" (include "elasticjob.fullname" .)) }}
{{- end }}
{{- define "elasticjob.serverSecret" -}}
{{ .Values.etcd.tls.serverSecret | default (printf "%s-etcd-server" (include "elasticjob.fullname" .)) }}
{{- end }}
{{- define "elasticjob.etcdNames" -}}
{{- $service := printf "%s-etcd%s.%s" (include "elasticjob.fullname" .) (eq (int .Values.etcd.members) 1 | ternary "" "-peers") .Release.Namespace -}}
{{- $names := list $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) "localhost" "127.0.0.1" -}}
{{- if gt (int .Values.etcd.members) 1 }}{{ $names = append $names (printf "*.%s.svc" $service) }}{{ end -}}
{{ toJson $names }}
{{- end }}

{{/* What a namespaced operator calls this cluster: of an etcd that several clusters may share, it must be told. */}}
{{- define "elasticjob.clusterId" -}}
{{- if .Values.operator.clusterId -}}
{{ .Values.operator.clusterId }}
{{- else if .Values.operator.watchNamespaces -}}
{{- if not .Values.etcd.enabled }}{{ fail "operator.clusterId: with operator.watchNamespaces and an etcd of your own, name this cluster: two that share an etcd must differ" }}{{ end -}}
{{ .Release.Namespace }}.{{ .Release.Name }}
{{- end -}}
{{- end }}

{{- define "elasticjob.image" -}}
{{ .repository }}:{{ .tag }}
{{- end }}

{{- define "elasticjob.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "elasticjob.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "elasticjob.serviceMonitor" -}}
{{- $wanted := toString .Values.serviceMonitor.enabled -}}
{{- if or (eq $wanted "true") (and (eq $wanted "auto") (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor")) }}yes{{ end }}
{{- end }}

{{/* What the operator may do where it works. Each rule says what it is for. */}}
{{- define "elasticjob.rules" -}}
- apiGroups: [elasticjob.io]
  resources: [elasticjobs]
  verbs: [get, list, watch, delete]  # get: by quorum, before anything is done for the last time; delete: the TTL
- apiGroups: [elasticjob.io]
  resources: [elasticjobs/status]
  verbs: [patch]
- apiGroups: [elasticjob.io]
  resources: [elasticjobs/finalizers]
  verbs: [update]  # owner references that block, where OwnerReferencesPermissionEnforcement is on (OpenShift)
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [create, patch]  # server-side apply
{{- if .Values.etcd.tls.enabled }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, update]  # each job's certificate; it can read none
{{- end }}
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, patch]  # server-side apply
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]  # told again, an event is the same object with a higher count
{{- end }}
