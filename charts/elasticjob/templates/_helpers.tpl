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

{{/*
How many members etcd has. With auto: a release that runs keeps its number, a new one has three. A StatefulSet of three
cannot become one of one, nor the other way: another number than it has is refused.
*/}}
{{- define "elasticjob.etcdSize" -}}
{{- $name := printf "%s-etcd" (include "elasticjob.fullname" .) -}}
{{- $wanted := .Values.etcd.members | default "auto" | toString -}}
{{- $running := lookup "apps/v1" "StatefulSet" .Release.Namespace $name -}}
{{- if $running -}}
{{- $runs := hasSuffix "-peers" $running.spec.serviceName | ternary "3" "1" -}}
{{- if not (has $wanted (list "auto" $runs)) -}}
{{- fail (printf "etcd.members: this release runs with %s and an upgrade keeps that number: set etcd.members=auto, or first do what docs/etcd.md has under 'Another number of members'" $runs) -}}
{{- end -}}
{{ $runs }}
{{- else -}}
{{ eq $wanted "auto" | ternary "3" $wanted }}
{{- end -}}
{{- end }}

{{/* host:port of etcd for the operator and the pods of jobs; several addresses are separated by commas. */}}
{{- define "elasticjob.etcdEndpoints" -}}
{{- $name := printf "%s-etcd" (include "elasticjob.fullname" .) -}}
{{- if not .Values.etcd.enabled -}}
{{ required "etcd.endpoints: name the etcd to use (HOST:PORT), or set etcd.enabled" (.Values.etcd.endpoints | join ",") }}
{{- else if eq (include "elasticjob.etcdSize" .) "1" -}}
{{ $name }}.{{ .Release.Namespace }}.svc:2379
{{- else -}}
{{- /* One name that resolves to all members: gRPC tries the next address by itself. */ -}}
{{ $name }}-peers.{{ .Release.Namespace }}.svc:2379
{{- end -}}
{{- end }}

{{/*
Whether etcd requires certificates. With auto: the release's own etcd does, unless it runs and does not, because the jobs
that use it have none; without a StatefulSet the operator's flags show how it ran. An etcd of the user's does if its
authority is named.
*/}}
{{- define "elasticjob.etcdTls" -}}
{{- $wanted := toString .Values.etcd.tls.enabled -}}
{{- if eq $wanted "true" -}}
yes
{{- else if eq $wanted "auto" -}}
{{- if not .Values.etcd.enabled -}}
{{ .Values.etcd.tls.caSecret | empty | ternary "" "yes" }}
{{- else -}}
{{- $release := include "elasticjob.fullname" . -}}
{{- $etcd := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-etcd" $release) -}}
{{- $operator := lookup "apps/v1" "Deployment" .Release.Namespace (printf "%s-operator" $release) | toJson -}}
{{- if $etcd -}}
{{- if contains "--listen-client-urls=https://" (toJson $etcd) }}yes{{ end -}}
{{- else if or (not (contains (printf "--etcd-endpoints=%s-etcd" $release) $operator)) (contains "--etcd-ca-secret=" $operator) -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
With TLS: where the authority is, where etcd's own certificate, and by which names etcd is dialed. The names are those of
one member and of three: pods of jobs keep the name that they began with when the number changes.
*/}}
{{- define "elasticjob.caSecret" -}}
{{ .Values.etcd.tls.caSecret | default (printf "%s-etcd-ca" (include "elasticjob.fullname" .)) }}
{{- end }}
{{- define "elasticjob.serverSecret" -}}
{{ .Values.etcd.tls.serverSecret | default (printf "%s-etcd-server" (include "elasticjob.fullname" .)) }}
{{- end }}
{{- define "elasticjob.etcdNames" -}}
{{- $names := list -}}
{{- range $suffix := list "" "-peers" -}}
{{- $service := printf "%s-etcd%s.%s" (include "elasticjob.fullname" $) $suffix $.Release.Namespace -}}
{{- $names = concat $names (list $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service)) -}}
{{- end -}}
{{- $members := printf "*.%s-etcd-peers.%s.svc" (include "elasticjob.fullname" .) .Release.Namespace -}}
{{ concat $names (list $members "localhost" "127.0.0.1") | toJson }}
{{- end }}

{{/* NAME=PEER_URL of all members, as JSON. */}}
{{- define "elasticjob.etcdMembers" -}}
{{- $name := printf "%s-etcd" (include "elasticjob.fullname" .) -}}
{{- $scheme := (include "elasticjob.etcdTls" .) | empty | not | ternary "https" "http" -}}
{{- $members := list -}}
{{- range $i := until (include "elasticjob.etcdSize" . | int) }}{{ $members = append $members (printf "%s-%d=%s://%s-%d.%s-peers.%s.svc:2380" $name $i $scheme $name $i $name $.Release.Namespace) }}{{ end -}}
{{ toJson $members }}
{{- end }}

{{/* Seconds until a lost volume of a member is replaced; nothing if none ever is. */}}
{{- define "elasticjob.replaceVolumesAfter" -}}
{{- $seconds := kindIs "invalid" .Values.etcd.persistence.replaceAfterSeconds | ternary 600 .Values.etcd.persistence.replaceAfterSeconds | int -}}
{{- if and .Values.etcd.enabled .Values.etcd.persistence.enabled (not .Values.operator.watchNamespaces) (gt $seconds 0) -}}
{{- if ne (include "elasticjob.etcdSize" .) "1" }}{{ $seconds }}{{ end -}}
{{- end -}}
{{- end }}

{{/* etcd's flags but for its client port and metrics: of the server, and of the init container that prepares its data. */}}
{{- define "elasticjob.etcdFlags" -}}
{{- $name := .name }}{{ $scheme := .scheme }}{{ $host := .host }}
{{- with .root -}}
{{- if eq (include "elasticjob.etcdSize" .) "1" -}}
- --name=$(POD_NAME)
- --data-dir=/data/etcd
- --advertise-client-urls={{ $scheme }}://{{ $host }}:2379
- --listen-peer-urls=http://127.0.0.1:2380
- --initial-advertise-peer-urls=http://127.0.0.1:2380
- --initial-cluster=$(POD_NAME)=http://127.0.0.1:2380
- --initial-cluster-token=$(POD_UID)  # data that was lost must not come back as the same cluster
{{- else -}}
- --advertise-client-urls={{ $scheme }}://{{ $host }}:2379
- --listen-peer-urls={{ $scheme }}://0.0.0.0:2380
{{- if include "elasticjob.etcdTls" . }}
- --peer-client-cert-auth
- --peer-trusted-ca-file=/tls/ca.crt
- --peer-cert-file=/tls/tls.crt
- --peer-key-file=/tls/tls.key
- --peer-cert-allowed-hostname={{ $name }}-peers.{{ .Release.Namespace }}.svc  # jobs' certificates have no names
{{- end }}
- --heartbeat-interval=250
- --election-timeout=2500  # less than half of a lease; a busy node may keep a member waiting for a second
{{- end }}
- --enable-grpc-gateway=false  # HTTP without users, for any web page; nothing needs it
- --auto-compaction-mode=periodic
- --auto-compaction-retention=5m  # no component reads the history of agents' reports
- --quota-backend-bytes={{ int64 .Values.etcd.quotaBackendBytes }}
# Raft's log stays in memory and in the WAL until a snapshot: so many entries, of so many bytes each, of any writer.
- --snapshot-count=300
- --snapshot-catchup-entries=200
- --max-request-bytes=1048576  # the failures of a large node; the largest spec has a tenth of it
{{- end }}
{{- end }}

{{/* A namespaced operator's name of this cluster: required for an etcd that several clusters may share. */}}
{{- define "elasticjob.clusterId" -}}
{{- if .Values.operator.clusterId -}}
{{ .Values.operator.clusterId }}
{{- else if .Values.operator.watchNamespaces -}}
{{- if not .Values.etcd.enabled }}{{ fail "operator.clusterId: with operator.watchNamespaces and an etcd of your own, name this cluster: two that share an etcd must differ" }}{{ end -}}
{{ .Release.Namespace }}.{{ .Release.Name }}
{{- end -}}
{{- end }}

{{/*
The release's own PriorityClass, if it has one. It is in no namespace: with auto a release that needs rights in its
namespaces alone does without. An upgrade with --reuse-values has no such value.
*/}}
{{- define "elasticjob.priorityClass" -}}
{{- $wanted := toString (dig "create" "auto" (.Values.priorityClass | default dict)) -}}
{{- if or (eq $wanted "true") (and (eq $wanted "auto") (not .Values.operator.watchNamespaces)) -}}
{{ include "elasticjob.fullname" . }}-critical
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

{{/* Peers that may read metrics. */}}
{{- define "elasticjob.metricsFrom" -}}
{{- if .Values.networkPolicy.metricsFrom -}}
{{ toYaml .Values.networkPolicy.metricsFrom }}
{{- else if include "elasticjob.serviceMonitor" . -}}
- namespaceSelector: {}
  podSelector:
    matchLabels:
      app.kubernetes.io/name: prometheus
{{- end }}
{{- end }}

{{/* The permissions of the operator in its namespaces. Each rule has its purpose. */}}
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
{{- if include "elasticjob.etcdTls" . }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, update]  # each job's certificate; it can read none
{{- end }}
{{- /* A release of before this value has them. */}}
{{- if ne (toString .Values.operator.podDisruptionBudgets) "false" }}
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, patch, deletecollection]  # server-side apply; podDisruptionBudget None removes a job's own
{{- end }}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]  # a repeated event is the same object with a higher count
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]  # the uids: a namespace's is in the keys of its import profiles, and kube-system's is the cluster's id
{{- end }}
