#!/bin/sh
# Write a kubeconfig with the rights of the account "runner" and no others, for the Dags:
#   runner-kubeconfig.sh CONTEXT NAMESPACE FILE
# Its token ends after LAGBENCH_TOKEN_DURATION (12h); run it again for a new one.
set -eu
[ $# -eq 3 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
context=$1 namespace=$2 file=$3
umask 077
mkdir -p "$(dirname "$file")"
token=$(kubectl --context "$context" -n "$namespace" create token runner \
  --duration "${LAGBENCH_TOKEN_DURATION:-12h}")
# The cluster's address and authority come from the context; its user does not.
kubectl --context "$context" config view --minify --flatten --raw \
  -o jsonpath='{.clusters[0].cluster}' >"$file.cluster"
printf '%s' "{\"apiVersion\": \"v1\", \"kind\": \"Config\", \"current-context\": \"lagbench\",
 \"clusters\": [{\"name\": \"lagbench\", \"cluster\": $(cat "$file.cluster")}],
 \"users\": [{\"name\": \"runner\", \"user\": {\"token\": \"$token\"}}],
 \"contexts\": [{\"name\": \"lagbench\", \"context\":
   {\"cluster\": \"lagbench\", \"user\": \"runner\", \"namespace\": \"$namespace\"}}]}
" >"$file"
rm -f "$file.cluster"
echo "wrote $file"
