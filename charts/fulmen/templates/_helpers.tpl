{{- define "fulmen.labels" -}}
app.kubernetes.io/name: fulmen-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "fulmen.selector" -}}
app.kubernetes.io/name: fulmen-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fulmen.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}-operator
{{- end }}

{{- /* Pods of the operator on different nodes, where that is possible. */}}
{{- define "fulmen.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "fulmen.selector" . | nindent 12 }}
{{- end }}

{{- /* What the operator may do in the namespaces that it looks after. */}}
{{- define "fulmen.rules" -}}
# list and watch, here and below: what the operator looks at is watched. get is what it gives to
# drivers: a Role can't be given rights that its giver does not have.
- apiGroups: [fulmen.dev]
  resources: [topologies]
  verbs: [get, list, watch]
- apiGroups: [fulmen.dev]
  resources: [topologies/status]
  verbs: [patch]
# Drivers and preflights are made and deleted, workers of earlier attempts too. patch lets a driver
# run whose secret has been made. get and deletecollection are the driver's, for its workers.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete, deletecollection]
# Revisions and code.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# Made, and never read, changed or deleted: the garbage collector takes them with their drivers.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
# One for drivers, one for workers.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [list, watch, create, patch]
# The checkpoint's claim. It is deleted with its topology by the garbage collector, if so wished.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, create, patch]
# For topologies with networkPolicy: Restrict, or a service.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, create, patch, delete]
# For topologies with a service.
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- if .Values.rbac.finalizers }}
# Where OwnerReferencesPermissionEnforcement is on: to own objects whose deletion is waited for, and
# to change who owns an object, which only who may delete it may do.
- apiGroups: [fulmen.dev]
  resources: [topologies/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [persistentvolumeclaims, serviceaccounts]
  verbs: [delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [delete]
{{- end }}
{{- end }}

{{- define "fulmen.view" -}}
- apiGroups: [fulmen.dev]
  resources: [topologies, topologies/status, topologies/scale]
  verbs: [get, list, watch]
{{- end }}

{{- define "fulmen.edit" -}}
- apiGroups: [fulmen.dev]
  resources: [topologies]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
- apiGroups: [fulmen.dev]
  resources: [topologies/scale]
  verbs: [get, update, patch]
{{- end }}

{{- /* Of the pod security standards, as the operator has them for podTemplate. */}}
{{- define "fulmen.sysctls" -}}
['kernel.shm_rmid_forced', 'net.ipv4.ip_local_port_range', 'net.ipv4.ip_local_reserved_ports',
'net.ipv4.ip_unprivileged_port_start', 'net.ipv4.ping_group_range', 'net.ipv4.tcp_fin_timeout',
'net.ipv4.tcp_keepalive_intvl', 'net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_keepalive_time',
'net.ipv4.tcp_rmem', 'net.ipv4.tcp_syncookies', 'net.ipv4.tcp_wmem']
{{- end }}

{{- define "fulmen.capabilities" -}}
{{- if eq .Values.podTemplate.allow "restricted" -}}
['NET_BIND_SERVICE']
{{- else -}}
['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'NET_BIND_SERVICE',
'SETFCAP', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT']
{{- end -}}
{{- end }}
