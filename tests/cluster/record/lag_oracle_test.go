// Placed beside a copy of KEDA's own scalers: asks its kafka scaler for the lag of kept offsets.
//
// The scaler asks brokers over the network. A partition whose earliest offset is not to be found
// is led by a broker that leaves it out of its second answer.
package scalers

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/IBM/sarama"
	v2 "k8s.io/api/autoscaling/v2"

	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

const topic, group = "topic", "group"

type kept struct {
	Committed, Latest int64
	Earliest          *int64
}

type outcome struct {
	Metric            int64 `json:"metric"`
	LagWithPersistent int64 `json:"lagWithPersistent"`
	Active            bool  `json:"active"`
}

func TestReplay(t *testing.T) {
	text, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct {
		Cases []struct {
			Metadata map[string]any
			Polls    []struct{ Partitions map[string]kept }
		}
	}
	if err := json.Unmarshal(text, &oracle); err != nil {
		t.Fatal(err)
	}
	whole, partial := sarama.NewMockBroker(t, 1), sarama.NewMockBroker(t, 2)
	defer whole.Close()
	defer partial.Close()
	all := make([][]outcome, len(oracle.Cases))
	for number, given := range oracle.Cases {
		metadata := map[string]string{"bootstrapServers": whole.Addr(), "topic": topic, "consumerGroup": group}
		for name, value := range given.Metadata {
			metadata[name] = fmt.Sprint(value)
		}
		var scaler *kafkaScaler
		for _, poll := range given.Polls {
			answer(t, whole, partial, poll.Partitions)
			scaler = connected(t, metadata, scaler)
			metric, withPersistent, err := scaler.getTotalLag()
			if err != nil {
				t.Fatalf("case %d: %v", number, err)
			}
			active := withPersistent > scaler.metadata.ActivationLagThreshold
			all[number] = append(all[number], outcome{metric, withPersistent, active})
			if err := scaler.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err = json.Marshal(all)
	if err == nil {
		err = os.WriteFile(flag.Arg(1), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// connected returns a new scaler that remembers what the one before it saw.
func connected(t *testing.T, metadata map[string]string, before *kafkaScaler) *kafkaScaler {
	made, err := NewKafkaScaler(context.Background(), &scalersconfig.ScalerConfig{
		TriggerMetadata: metadata,
		MetricType:      v2.AverageValueMetricType,
	})
	if err != nil {
		t.Fatal(err)
	}
	scaler := made.(*kafkaScaler)
	if before != nil {
		scaler.previousOffsets = before.previousOffsets
	}
	return scaler
}

func answer(t *testing.T, whole, partial *sarama.MockBroker, partitions map[string]kept) {
	brokers := sarama.NewMockMetadataResponse(t).
		SetBroker(whole.Addr(), whole.BrokerID()).SetBroker(partial.Addr(), partial.BrokerID()).
		SetController(whole.BrokerID())
	offsets := sarama.NewMockOffsetResponse(t)
	committed := sarama.NewMockOffsetFetchResponse(t)
	for text, found := range partitions {
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		partition, leader := int32(number), whole
		offsets.SetOffset(topic, partition, sarama.OffsetNewest, found.Latest)
		if found.Earliest != nil {
			offsets.SetOffset(topic, partition, sarama.OffsetOldest, *found.Earliest)
		} else if found.Committed == -1 {
			leader = partial
		}
		brokers.SetLeader(topic, partition, leader.BrokerID())
		committed.SetOffset(group, topic, partition, found.Committed, "", sarama.ErrNoError)
	}
	handlers := map[string]sarama.MockResponse{
		"ApiVersionsRequest":     sarama.NewMockApiVersionsResponse(t),
		"MetadataRequest":        brokers,
		"FindCoordinatorRequest": sarama.NewMockFindCoordinatorResponse(t).SetCoordinator(sarama.CoordinatorGroup, group, whole),
		"OffsetFetchRequest":     committed,
		"OffsetRequest":          offsets,
	}
	whole.SetHandlerByMap(handlers)
	none := sarama.NewMockWrapper(&sarama.OffsetResponse{Version: 1})
	handlers["OffsetRequest"] = sarama.NewMockSequence(offsets, none)
	partial.SetHandlerByMap(handlers) // both keep a copy
}
