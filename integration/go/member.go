// Command member is a member of a consumer group in Sarama or kafka-go: member sarama|kafka-go BOOTSTRAP GROUP TOPIC range|roundrobin.
//
// Standard output has a line "PARTITION OFFSET" for each record, and a line "error: ..." for each error that the library reports.
// The member leaves the group at the end of standard input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
)

const session, heartbeat = 10 * time.Second, 500 * time.Millisecond

type order struct {
	bootstrap              []string
	group, topic, strategy string
}

func main() {
	wanted := order{strings.Split(os.Args[2], ","), os.Args[3], os.Args[4], os.Args[5]}
	stop, leave := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		leave()
	}()
	map[string]func(context.Context, order){"sarama": runSarama, "kafka-go": runKafkaGo}[os.Args[1]](stop, wanted)
}

func report(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Println("error:", err)
	}
}

// Sarama.

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		fmt.Println(message.Partition, message.Offset)
		session.MarkMessage(message, "")
	}
	return nil
}

func runSarama(stop context.Context, wanted order) {
	config := sarama.NewConfig()
	config.ClientID = "sarama"
	config.Version = sarama.V2_8_0_0
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	config.Consumer.Group.Session.Timeout, config.Consumer.Group.Heartbeat.Interval = session, heartbeat
	strategies := map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[wanted.strategy]}
	group, err := sarama.NewConsumerGroup(wanted.bootstrap, wanted.group, config)
	if err != nil {
		report(err)
		return
	}
	go func() {
		for err := range group.Errors() {
			report(err)
		}
	}()
	for stop.Err() == nil {
		report(group.Consume(stop, []string{wanted.topic}, handler{}))
	}
	report(group.Close())
}

// kafka-go.

func runKafkaGo(stop context.Context, wanted order) {
	balancers := map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           wanted.bootstrap,
		GroupID:           wanted.group,
		Topic:             wanted.topic,
		Dialer:            &kafka.Dialer{ClientID: "kafka-go", Timeout: session},
		GroupBalancers:    []kafka.GroupBalancer{balancers[wanted.strategy]},
		MaxWait:           time.Second,
		HeartbeatInterval: heartbeat,
		SessionTimeout:    session,
		RebalanceTimeout:  session,
		StartOffset:       kafka.FirstOffset,
		ErrorLogger:       kafka.LoggerFunc(func(text string, a ...any) { report(fmt.Errorf(text, a...)) }),
	})
	for stop.Err() == nil {
		message, err := reader.FetchMessage(stop)
		if err == nil {
			fmt.Println(message.Partition, message.Offset)
			err = reader.CommitMessages(stop, message)
		}
		report(err)
	}
	report(reader.Close())
}
