// Play cases to KEDA's own prometheus scaler and print what it makes of each.
//
// It is compiled as a package of KEDA's module. Cases come as JSON from standard input, rows go to
// standard output. Each case has a server of its own on loopback; "$SERVER" in the metadata stands
// for its address, and in the texts of a row as well.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sort"
	"strings"
	"time"

	v2 "k8s.io/api/autoscaling/v2"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

// The operator's default of KEDA_HTTP_DEFAULT_TIMEOUT.
const globalTimeout = 3 * time.Second

type testCase struct {
	Name       string            `json:"name"`
	Metadata   map[string]string `json:"metadata"`
	Auth       map[string]string `json:"auth,omitempty"`
	MetricType string            `json:"metricType,omitempty"`
	Index      int               `json:"index,omitempty"`
	Status     int               `json:"status,omitempty"`
	Body       string            `json:"body,omitempty"`
	DelayMs    int               `json:"delayMs,omitempty"`
	IsDown     bool              `json:"isDown,omitempty"`
}

type request struct {
	Path    string              `json:"path"`
	Query   map[string][]string `json:"query"`
	Headers map[string][]string `json:"headers"`
}

type row struct {
	testCase
	BuildError string   `json:"buildError,omitempty"`
	Target     any      `json:"target,omitempty"`
	MetricName string   `json:"metricName,omitempty"`
	Request    *request `json:"request,omitempty"`
	Value      string   `json:"value,omitempty"`
	IsActive   bool     `json:"isActive"`
	ReadError  string   `json:"readError,omitempty"`
	ReadPanic  string   `json:"readPanic,omitempty"`
}

var (
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	stack   = regexp.MustCompile(`(?s)resulted in panic\n.*`)
)

// What Go's client sends by itself.
var ownHeaders = map[string]bool{"User-Agent": true, "Accept-Encoding": true}

func main() {
	var cases []testCase
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	rows := make([]row, 0, len(cases))
	for _, one := range cases {
		rows = append(rows, play(one))
	}
	if err := json.NewEncoder(os.Stdout).Encode(rows); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(one testCase) row {
	found := row{testCase: one}
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, asked *http.Request) {
		found.Request = seen(asked)
		time.Sleep(time.Duration(one.DelayMs) * time.Millisecond)
		writer.WriteHeader(one.Status)
		_, _ = writer.Write([]byte(one.Body))
	}))
	address := server.URL
	if one.IsDown {
		server.Close()
	} else {
		defer server.Close()
	}
	hidden := func(text string) string {
		text = strings.ReplaceAll(text, address, "$SERVER")
		text = strings.ReplaceAll(text, strings.TrimPrefix(address, "http://"), "$SERVER")
		text = stack.ReplaceAllString(text, "resulted in panic")
		return instant.ReplaceAllLiteralString(text, "$TIME")
	}
	metadata := map[string]string{}
	for key, value := range one.Metadata {
		metadata[key] = strings.ReplaceAll(value, "$SERVER", address)
	}
	scaler, err := scalers.NewPrometheusScaler(&scalersconfig.ScalerConfig{
		ScalableObjectName:      "consumer",
		ScalableObjectNamespace: "lagbench",
		ScalableObjectType:      "ScaledObject",
		TriggerMetadata:         metadata,
		AuthParams:              one.Auth,
		TriggerIndex:            one.Index,
		MetricType:              v2.MetricTargetType(one.MetricType),
		GlobalHTTPTimeout:       globalTimeout,
		TriggerType:             "prometheus",
	})
	if err != nil {
		found.BuildError = hidden(err.Error())
		return found
	}
	external := scaler.GetMetricSpecForScaling(context.Background())[0].External
	found.Target, found.MetricName = external.Target, external.Metric.Name
	read(scaler, &found, hidden)
	return found
}

func read(scaler scalers.Scaler, found *row, hidden func(string) string) {
	defer func() {
		if broken := recover(); broken != nil {
			found.ReadPanic = fmt.Sprint(broken)
		}
	}()
	values, active, err := scaler.GetMetricsAndActivity(context.Background(), found.MetricName)
	if err != nil {
		found.ReadError = hidden(err.Error())
		return
	}
	found.Value, found.IsActive = values[0].Value.String(), active
}

func seen(asked *http.Request) *request {
	headers := map[string][]string{}
	for name, values := range asked.Header {
		if !ownHeaders[name] {
			sort.Strings(values)
			headers[name] = values
		}
	}
	query := asked.URL.Query()
	for place, text := range query["time"] {
		query["time"][place] = instant.ReplaceAllLiteralString(text, "$TIME")
	}
	return &request{Path: asked.URL.Path, Query: query, Headers: headers}
}
