// A consumer of orders on franz-go, as the client's documentation shows one: poll, process, produce.
//
// It prices each order and sends the result to an output topic with the headers that came. Offsets
// are committed automatically: those of a poll after the next poll has begun. SIGTERM ends the loop;
// then what is buffered is delivered, and closing the client leaves the group.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const messageCost = 4 * time.Millisecond

type order struct {
	Order      string `json:"order"`
	TotalCents int    `json:"total_cents"`
}

type price struct {
	Order string `json:"order"`
	Total int    `json:"total"`
}

// priced returns the order's total, after what stands for a look-up elsewhere.
func priced(value []byte) ([]byte, error) {
	var found order
	if err := json.Unmarshal(value, &found); err != nil {
		return nil, err
	}
	time.Sleep(messageCost)
	return json.Marshal(price{Order: found.Order, Total: found.TotalCents})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...),
		kgo.ClientID(os.Getenv("CLIENT_ID")),
		kgo.ConsumerGroup(os.Getenv("GROUP_ID")),
		kgo.ConsumeTopics(os.Getenv("ORDERS_TOPIC")),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				log.Printf("%s/%d: %v", topic, partition, err)
			}
		})
		for records := fetches.RecordIter(); !records.Done() && ctx.Err() == nil; {
			publish(client, records.Next())
		}
	}
	if err := client.Flush(context.Background()); err != nil {
		log.Printf("flush: %v", err)
	}
}

// publish sends the price of one order, with the order's key and headers.
func publish(client *kgo.Client, in *kgo.Record) {
	value, err := priced(in.Value)
	if err != nil {
		log.Printf("%s/%d at %d: %v", in.Topic, in.Partition, in.Offset, err)
		return
	}
	out := &kgo.Record{
		Topic:   os.Getenv("PRICES_TOPIC"),
		Key:     in.Key,
		Value:   value,
		Headers: in.Headers,
	}
	client.Produce(context.Background(), out, func(_ *kgo.Record, err error) {
		if err != nil {
			log.Printf("produce: %v", err)
		}
	})
}
