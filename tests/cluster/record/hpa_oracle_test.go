// Placed beside a copy of Kubernetes' own HPA controller: replays kept syncs on a virtual clock.
//
// The replicas are those that reconcileAutoscaler wrote. When it rescales it overwrites the
// condition AbleToScale, so proposal and conditions come from the functions that it calls, run just
// before on a copy of the controller's memory; both must lead to the same replicas.
package podautoscaler

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	"k8s.io/client-go/rest"
	scaleclient "k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	metricsclient "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

const name, namespace, key = "w", "default", "default/w"

type tick struct {
	T                                       int64
	SpecReplicas, StatusReplicas, ReadyPods int32
	MetricMilli                             int64
}

type scenario struct {
	Hpa                           autoscalingv2.HorizontalPodAutoscalerSpec
	TargetType                    autoscalingv2.MetricTargetType
	TargetMilli                   int64
	Tolerance                     float64
	SyncPeriodSeconds             int64
	DownscaleStabilizationSeconds int64
	Ticks                         []tick
}

type outcome struct {
	MetricDesired  *int32 `json:"metricDesired"`
	NewReplicas    int32  `json:"newReplicas"`
	AbleToScale    string `json:"ableToScale"`
	ScalingLimited string `json:"scalingLimited"`
	UsageMilli     *int64 `json:"usageMilli"`
}

// The target's scale.
type scales struct {
	scaleclient.ScaleInterface
	now *autoscalingv1.Scale
}

func (s *scales) Scales(string) scaleclient.ScaleInterface { return s }

func (s *scales) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	return s.now.DeepCopy(), nil
}

func (s *scales) Update(_ context.Context, _ schema.GroupResource, scale *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	s.now = scale.DeepCopy()
	return scale, nil
}

// The HPA as stored.
type stored struct {
	autoscalingclient.HorizontalPodAutoscalerInterface
	now *autoscalingv2.HorizontalPodAutoscaler
}

func (s *stored) HorizontalPodAutoscalers(string) autoscalingclient.HorizontalPodAutoscalerInterface {
	return s
}

func (s *stored) UpdateStatus(_ context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, _ metav1.UpdateOptions) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	s.now = hpa.DeepCopy()
	return hpa, nil
}

// The external metric, and whether it was asked for.
type metric struct {
	metricsclient.MetricsClient
	milli int64
	asked bool
}

func (m *metric) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	m.asked = true
	return []int64{m.milli}, time.Now(), nil
}

func TestReplay(t *testing.T) {
	kept, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct{ Scenarios []scenario }
	if err := json.Unmarshal(kept, &oracle); err != nil {
		t.Fatal(err)
	}
	all := make([][]outcome, len(oracle.Scenarios))
	for number, scenario := range oracle.Scenarios {
		controller := newReplayed(t.Context(), scenario)
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			for _, tick := range scenario.Ticks {
				time.Sleep(time.Until(began.Add(time.Duration(tick.T) * time.Millisecond)))
				all[number] = append(all[number], controller.sync(t, tick))
			}
		})
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(flag.Arg(1), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type replayed struct {
	*HorizontalController
	scales *scales
	stored *stored
	metric *metric
	pods   cache.Indexer
}

func newReplayed(ctx context.Context, given scenario) replayed {
	target := autoscalingv2.MetricTarget{Type: given.TargetType}
	quantity := resource.NewMilliQuantity(given.TargetMilli, resource.DecimalSI)
	if given.TargetType == autoscalingv2.AverageValueMetricType {
		target.AverageValue = quantity
	} else {
		target.Value = quantity
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       given.Hpa,
	}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{
		Type:     autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "m"}, Target: target},
	}}
	v2.SetDefaults_HorizontalPodAutoscaler(hpa)
	v2.SetDefaults_HorizontalPodAutoscalerBehavior(hpa)

	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{apps})
	mapper.Add(apps.WithKind("Deployment"), apimeta.RESTScopeNamespace)
	client := kubernetes.NewForConfigOrDie(&rest.Config{}) // its informers are not started
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	found := replayed{nil, &scales{}, &stored{now: hpa}, &metric{}, pods.Informer().GetIndexer()}
	found.HorizontalController = NewHorizontalController(
		ctx, client.CoreV1(), found.scales, found.stored, mapper, found.metric,
		factory.Autoscaling().V2().HorizontalPodAutoscalers(), pods,
		time.Duration(given.SyncPeriodSeconds)*time.Second,
		time.Duration(given.DownscaleStabilizationSeconds)*time.Second,
		given.Tolerance, 5*time.Minute, 30*time.Second,
	)
	found.eventRecorder = &record.FakeRecorder{}
	found.enqueueHPA(hpa)
	return found
}

func (r replayed) sync(t *testing.T, now tick) outcome {
	r.metric.milli = now.MetricMilli
	r.scales.now = &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: now.SpecReplicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: now.StatusReplicas, Selector: "app=w"},
	}
	r.setPods(t, now)
	before := r.normalized()
	r.metric.asked = false
	if err := r.reconcileAutoscaler(t.Context(), r.stored.now, key); err != nil {
		t.Fatal(err)
	}
	replicas := r.scales.now.Spec.Replicas
	if !r.metric.asked {
		return outcome{NewReplicas: replicas}
	}
	if before.NewReplicas != replicas {
		t.Fatalf("at %d ms the HPA wrote %d replicas, its functions lead to %d", now.T, replicas, before.NewReplicas)
	}
	current := r.stored.now.Status.CurrentMetrics[0].External.Current
	usage := current.AverageValue
	if usage == nil {
		usage = current.Value
	}
	milli := usage.MilliValue()
	before.UsageMilli = &milli
	return before
}

// normalized returns proposal, replicas and conditions, and leaves the controller as it is.
func (r replayed) normalized() outcome {
	copied := *r.HorizontalController
	copied.recommendations = copyOf(r.recommendations)
	copied.scaleUpEvents = copyOf(r.scaleUpEvents)
	copied.scaleDownEvents = copyOf(r.scaleDownEvents)
	hpa, scale := r.stored.now.DeepCopy(), r.scales.now
	current := scale.Spec.Replicas
	copied.recordInitialRecommendation(current, key)
	proposed, _, _, _, err := copied.computeReplicasForMetrics(context.Background(), hpa, scale, hpa.Spec.Metrics)
	if err != nil {
		return outcome{} // the HPA does not ask either, or the sync fails on this
	}
	found := outcome{MetricDesired: &proposed}
	if hpa.Spec.Behavior == nil {
		found.NewReplicas = copied.normalizeDesiredReplicas(hpa, key, current, proposed, *hpa.Spec.MinReplicas)
	} else {
		found.NewReplicas = copied.normalizeDesiredReplicasWithBehaviors(hpa, key, current, proposed, *hpa.Spec.MinReplicas)
	}
	for _, condition := range hpa.Status.Conditions {
		text := strings.ToLower(string(condition.Status)) + ":" + condition.Reason
		switch condition.Type {
		case autoscalingv2.AbleToScale:
			found.AbleToScale = text
		case autoscalingv2.ScalingLimited:
			found.ScalingLimited = text
		}
	}
	return found
}

func copyOf[T any](lists map[string][]T) map[string][]T {
	copied := map[string][]T{}
	for key, list := range lists {
		copied[key] = slices.Clone(list)
	}
	return copied
}

func (r replayed) setPods(t *testing.T, now tick) {
	pods := make([]any, now.StatusReplicas)
	for number := range pods {
		ready := v1.ConditionFalse
		if int32(number) < now.ReadyPods {
			ready = v1.ConditionTrue
		}
		pods[number] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w-%d", number), Namespace: namespace, Labels: map[string]string{"app": name}},
			Status: v1.PodStatus{
				Phase:      v1.PodRunning,
				Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: ready}},
			},
		}
	}
	if err := r.pods.Replace(pods, ""); err != nil {
		t.Fatal(err)
	}
}
