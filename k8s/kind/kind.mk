# Images, and a kind cluster that has all a rehearsal needs. Needs docker, kind and kubectl.
# The projects' own release manifests, applied with kubectl, need no further tool and no chart
# repository; without a network, name files: make kind KEDA_MANIFEST=keda.yaml ...
KEDA_VERSION := 2.21.0
METRICS_SERVER_VERSION := 0.9.0
RELEASES := releases/download
KEDA_MANIFEST ?= https://github.com/kedacore/keda/$(RELEASES)/v$(KEDA_VERSION)/keda-$(KEDA_VERSION).yaml
METRICS_SERVER_MANIFEST ?= https://github.com/kubernetes-sigs/metrics-server/$(RELEASES)/v$(METRICS_SERVER_VERSION)/components.yaml

IMAGE_TAG := 0.1.0
KIND_CLUSTER := lagbench
KIND_KUBECONFIG := .lagbench/kind.kubeconfig
KIND_INTERNAL_KUBECONFIG := .lagbench/kind-internal.kubeconfig
ON_KIND := kubectl --context kind-$(KIND_CLUSTER)
# --force-conflicts: a second `make kind` must win over what an earlier one patched.
KIND_APPLY := $(ON_KIND) apply --server-side --force-conflicts

.PHONY: images kind kind-down need-docker need-kind

need-docker:
	@docker info >/dev/null 2>&1 \
	  || { echo "no Docker daemon answers (docker info); start Docker, or use make rehearse"; exit 3; }

need-kind: need-docker
	@for tool in kind kubectl; do command -v $$tool >/dev/null \
	  || { echo "$$tool is not installed; a cluster of yours: docs/kubernetes.md"; exit 3; }; done

images: need-docker ## Build the images of the programs and of Spark.
	docker build -f k8s/images/programs.Dockerfile -t lagbench/programs:$(IMAGE_TAG) .
	docker build -f k8s/images/spark.Dockerfile -t lagbench/spark:$(IMAGE_TAG) .

kind: need-kind images ## Create a kind cluster with KEDA, Kafka, Prometheus, Grafana.
	kind get clusters 2>/dev/null | grep -qx $(KIND_CLUSTER) \
	  || kind create cluster --config k8s/kind/cluster.yaml --wait 180s
	kind load docker-image --name $(KIND_CLUSTER) \
	  lagbench/programs:$(IMAGE_TAG) lagbench/spark:$(IMAGE_TAG)
	$(KIND_APPLY) -f $(KEDA_MANIFEST)
	$(KIND_APPLY) -f $(METRICS_SERVER_MANIFEST)
	$(ON_KIND) -n kube-system patch deployment metrics-server --patch-file k8s/kind/metrics-server.yaml
	$(KIND_APPLY) -k k8s/base/namespace
	@if compgen -G "include/grafana/*.json" >/dev/null; then \
	  $(ON_KIND) -n lagbench create configmap grafana-boards --from-file=include/grafana \
	    --dry-run=client -o yaml | $(KIND_APPLY) -f -; fi
	$(KIND_APPLY) -k k8s/overlays/kind
	$(ON_KIND) -n keda wait deployment --all --for=condition=Available --timeout=300s
	$(ON_KIND) -n kube-system wait deployment/metrics-server --for=condition=Available --timeout=180s
	$(ON_KIND) -n lagbench rollout status statefulset/kafka --timeout=300s
	$(ON_KIND) -n lagbench wait deployment --all --for=condition=Available --timeout=300s
	k8s/runner-kubeconfig.sh kind-$(KIND_CLUSTER) lagbench $(KIND_KUBECONFIG)
	LAGBENCH_SERVER=https://lagbench-control-plane:6443 \
	  k8s/runner-kubeconfig.sh kind-$(KIND_CLUSTER) lagbench $(KIND_INTERNAL_KUBECONFIG)
	@echo "Kafka localhost:30092, Prometheus http://localhost:30090, Grafana http://localhost:30300"
	@echo "KUBECONFIG of the Dags: $(KIND_KUBECONFIG); next: docs/kubernetes.md"

kind-down: ## Delete the kind cluster.
	@command -v kind >/dev/null || { echo "kind is not installed"; exit 3; }
	kind delete cluster --name $(KIND_CLUSTER)
	rm -f $(KIND_KUBECONFIG) $(KIND_INTERNAL_KUBECONFIG) .lagbench/clusters/*-kind-*.json
