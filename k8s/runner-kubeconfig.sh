#!/bin/sh
# Write a kubeconfig with the rights of the account "runner" and no others, for the Dags:
#   runner-kubeconfig.sh CONTEXT NAMESPACE FILE
# Its token ends after LAGBENCH_TOKEN_DURATION (12h); run it again for a new one. LAGBENCH_SERVER
# replaces the API server's address where the file's readers know it by another one.
set -eu
[ $# -eq 3 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
context=$1 namespace=$2 file=$3
umask 077
mkdir -p "$(dirname "$file")"
token=$(kubectl --context "$context" -n "$namespace" create token runner \
  --duration "${LAGBENCH_TOKEN_DURATION:-12h}")
# The cluster's address and authority come from the context; its user does not.
cluster=$(kubectl --context "$context" config view --minify --flatten --raw \
  -o jsonpath='{.clusters[0].cluster}')
if [ -n "${LAGBENCH_SERVER:-}" ]; then
  cluster=$(printf '%s' "$cluster" | sed "s#\"server\":\"[^\"]*\"#\"server\":\"$LAGBENCH_SERVER\"#")
fi
printf '%s' "{\"apiVersion\": \"v1\", \"kind\": \"Config\", \"current-context\": \"lagbench\",
 \"clusters\": [{\"name\": \"lagbench\", \"cluster\": $cluster}],
 \"users\": [{\"name\": \"runner\", \"user\": {\"token\": \"$token\"}}],
 \"contexts\": [{\"name\": \"lagbench\", \"context\":
   {\"cluster\": \"lagbench\", \"user\": \"runner\", \"namespace\": \"$namespace\"}}]}
" >"$file"
echo "wrote $file"
